package gate

import (
	"debrief/playbook"
	"debrief/playbook/similar"
)

// isExtension reports whether b keeps the condition and the advice of the bullet old, which it would replace, and adds to them. Then both
// can be right. So the requests for b decide, as for any new advice, and not the record of old.
func isExtension(old, b *playbook.Bullet) bool {
	return old.Content != "" && similar.IsNarrower(old.When, b.When) && similar.IsExtension(old.Advice(), b.Advice())
}
