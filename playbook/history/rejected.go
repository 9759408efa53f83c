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
}

// Rejections returns the rejected proposals of reflections and edits, and the bullets that the Curator merged, removed
// or no longer shows; newest last. It does not contain removals by persons.
func Rejections(log Log) (all []Rejection, err error) {
	err = log.changes(endOfLog, func(c change) error {
		d := c.last()
		for _, part := range c {
			for i := range part.Ops {
				op := &part.Ops[i]
				verdict := verdictOf(op)
				if verdict == "" || d.Author != Curator {
					continue
				}
				found := Rejection{
					Version: d.Version, Time: d.Time, Verdict: verdict, Op: *op, Code: op.Code, Reason: op.Reason, Author: d.Author,
				}
				if verdict == VerdictMerged {
					found.DuplicateOf = op.Bullet
				}
				all = append(all, found)
			}
			for _, j := range part.Rejected {
				found := Rejection{
					Version: d.Version, Time: d.Time, Verdict: VerdictRejected, Op: j.Op, Code: j.Code, Reason: j.Reason, DuplicateOf: j.DuplicateOf,
					Author: d.Author,
				}
				if j.DuplicateOf != "" {
					found.Verdict = VerdictDuplicate
				}
				all = append(all, found)
			}
		}
		return nil
	})
	return all, err
}

// verdictOf returns the verdict of an operation after which prompts no longer have a bullet. It is "" for other operations.
func verdictOf(op *playbook.Op) Verdict {
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
