package gate

import (
	"debrief/playbook"
	"debrief/playbook/similar"
)

// isExtension reports whether a text keeps the condition and the advice of the bullet that it would replace, and adds to them. Both can be
// right then, so the record of that bullet is no reason against the new text: the requests for it decide, as for any new advice.
func isExtension(old, b *playbook.Bullet) bool {
	return old.Content != "" && similar.IsNarrower(old.When, b.When) && similar.IsExtension(old.Advice(), b.Advice())
}
