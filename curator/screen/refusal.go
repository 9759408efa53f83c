package screen

import (
	"fmt"

	"debrief/playbook"
)

// Refusal is the reason why an operation is rejected.
type Refusal struct {
	Code   playbook.Reason
	Reason string // a sentence for people
	// DuplicateOf is the bullet with the same or nearly the same text, if that is the reason.
	DuplicateOf playbook.BulletID
}

// Refusef returns a refusal with a formatted sentence.
func Refusef(code playbook.Reason, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Rejection returns the record of the rejected operation.
func (r *Refusal) Rejection(op playbook.Op) playbook.Rejection {
	return playbook.Rejection{Op: op, Code: r.Code, Reason: r.Reason, DuplicateOf: r.DuplicateOf}
}

// Limits of the texts in a delta besides the content of bullets, in bytes.
const (
	MaxReason  = 1000
	MaxName    = 200 // a quoted id or key
	MaxExcerpt = 500 // of rejected content
)
