package history

import (
	"time"

	"debrief/playbook"
)

// Verdict is the reason why a proposal or a bullet is not in the playbook.
type Verdict string

// The verdicts.
const (
	VerdictRejected    Verdict = "rejected"
	VerdictDuplicate   Verdict = "duplicate" // a bullet has the same content
	VerdictMerged      Verdict = "merged"
	VerdictRetired     Verdict = "retired"
	VerdictRemoved     Verdict = "removed"
	VerdictQuarantined Verdict = "quarantined"
)

// Rejection is a proposal that was rejected, or a bullet that was merged or removed.
type Rejection struct {
	Version     uint64            `json:"version"`
	Time        time.Time         `json:"time"`
	Verdict     Verdict           `json:"verdict"`
	Op          playbook.Op       `json:"operation"`
	Code        playbook.Reason   `json:"code,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	DuplicateOf playbook.BulletID `json:"duplicate_of,omitempty"` // the bullet with the same content, or the target of the merge
	Author      string            `json:"author,omitempty"`
	Delta       *playbook.Delta   `json:"-"` // with this Version
}

// Rejections returns the rejected proposals of reflections and edits, and the bullets that the Curator merged, removed
// or no longer shows; newest last. It does not contain removals by persons.
func Rejections(log Log) ([]Rejection, error) {
	var losses []Rejection
	err := log.changes(all, func(c change) error {
		d := c.last()
		for _, part := range c {
			for i := range part.Ops {
				op := &part.Ops[i]
				if what := verdict(op); what != "" && d.Author == Curator {
					loss := Rejection{d.Version, d.Time, what, *op, op.Code, op.Reason, "", d.Author, d}
					if what == VerdictMerged {
						loss.DuplicateOf = op.Bullet
					}
					losses = append(losses, loss)
				}
			}
			for _, j := range part.Rejected {
				loss := Rejection{d.Version, d.Time, VerdictRejected, j.Op, j.Code, j.Reason, j.DuplicateOf, d.Author, d}
				if j.DuplicateOf != "" {
					loss.Verdict = VerdictDuplicate
				}
				losses = append(losses, loss)
			}
		}
		return nil
	})
	return losses, err
}

func verdict(op *playbook.Op) Verdict {
	switch {
	case op.Kind == playbook.Merge:
		return VerdictMerged
	case op.Kind == playbook.Remove:
		return VerdictRemoved
	case op.Kind == playbook.SetStatus && op.Status == playbook.Retired:
		return VerdictRetired
	case (op.Kind == playbook.SetStatus || op.Kind == playbook.Add) && op.Status == playbook.Quarantined:
		return VerdictQuarantined
	}
	return ""
}
