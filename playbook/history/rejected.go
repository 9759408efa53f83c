package history

import (
	"time"

	"debrief/playbook"
)

// Verdict is why something that was asked for, or was there, is not in the playbook.
type Verdict string

const (
	Refused     Verdict = "rejected"
	Duplicate   Verdict = "duplicate" // a bullet says it already
	Merged      Verdict = "merged"
	Retired     Verdict = "retired"
	Removed     Verdict = "removed"
	Quarantined Verdict = "quarantined"
)

// Loss is something that was turned down, merged into something else, or taken out.
type Loss struct {
	Version uint64            `json:"version"`
	Time    time.Time         `json:"time"`
	What    Verdict           `json:"what"`
	Op      playbook.Op       `json:"operation"`
	Reason  string            `json:"reason,omitempty"`
	Same    playbook.BulletID `json:"same,omitempty"` // that says it already, or took it in
	Author  string            `json:"author,omitempty"`
	Delta   *playbook.Delta   `json:"-"` // that Version is of
}

// Rejected is what of reflections and edits was turned down, and which bullets the Curator merged or took out of what
// generators are shown; newest last. What people took out themselves is not in it.
func Rejected(log Log) ([]Loss, error) {
	var losses []Loss
	err := log.changes(all, func(c change) error {
		d := c.last()
		for _, part := range c {
			for i := range part.Ops {
				op := &part.Ops[i]
				if what := verdict(op); what != "" && d.Author == Curator {
					loss := Loss{d.Version, d.Time, what, *op, op.Reason, "", d.Author, d}
					if what == Merged {
						loss.Same = op.Bullet
					}
					losses = append(losses, loss)
				}
			}
			for _, j := range part.Rejected {
				loss := Loss{d.Version, d.Time, Refused, j.Op, j.Reason, j.Same, d.Author, d}
				if j.Same != "" {
					loss.What = Duplicate
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
		return Merged
	case op.Kind == playbook.Remove:
		return Removed
	case op.Kind == playbook.SetStatus && op.Status == playbook.Retired:
		return Retired
	case (op.Kind == playbook.SetStatus || op.Kind == playbook.Add) && op.Status == playbook.Quarantined:
		return Quarantined
	}
	return ""
}
