package gate

import (
	"debrief/playbook"
	"debrief/playbook/similar"
)

// isExtension reports whether a text keeps the condition and the advice of the bullet that it would replace, and adds to them. Both can be
// right then, so the requests for the new text decide, as for any new advice, and not the record of the bullet.
func isExtension(old, b *playbook.Bullet) bool {
	return old.Content != "" && similar.IsNarrower(old.When, b.When) && similar.IsExtension(old.Advice(), b.Advice())
}
