package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/playbook"
)

// Quarantined is a bullet in quarantine, with the change that put it there.
type Quarantined struct {
	*playbook.Bullet
	Version  uint64               `json:"version"`
	Time     time.Time            `json:"time"`
	Reason   string               `json:"reason,omitempty"`
	From     []string             `json:"from,omitempty"`     // handles of executions, with their sources
	Evidence []*playbook.Evidence `json:"evidence,omitempty"` // of these executions
}

// Quarantine returns the bullets of p in quarantine, oldest first, with the reason and the evidence from the log.
func Quarantine(log Log, p *playbook.Playbook) ([]*Quarantined, error) {
	held := map[playbook.BulletID]*Quarantined{}
	for b := range p.All() {
		if b.Status == playbook.Quarantined {
			held[b.ID] = &Quarantined{Bullet: b}
		}
	}
	err := log.changes(all, func(c change) error {
		for _, part := range c {
			for i := range part.Ops {
				op := &part.Ops[i]
				if q := held[op.Bullet]; q != nil && newStatus(op) == playbook.Quarantined {
					q.Version, q.Time, q.Reason = c.last().Version, c.last().Time, cmp.Or(op.Reason, c.last().Reason)
					for _, cover := range c.support(part, op) {
						if e := cover.Evidence; e != nil {
							q.Evidence = append(q.Evidence, e)
							q.From = append(q.From, strings.TrimSuffix(e.Execution+" "+e.Source, " "))
						}
					}
				}
			}
		}
		return nil
	})
	return slices.SortedFunc(maps.Values(held), func(a, b *Quarantined) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.ID, b.ID))
	}), err
}

// newStatus returns the status that an operation sets. It is empty if the operation makes the bullet active, or sets no
// status.
func newStatus(op *playbook.Op) playbook.Status {
	if op.PutBullet != nil {
		return op.PutBullet.Status
	}
	return op.Status
}

// Decision is a change of the status of a bullet by the Curator.
type Decision struct {
	Version uint64            `json:"version"`
	Time    time.Time         `json:"time"`
	ID      playbook.BulletID `json:"id"`
	Status  playbook.Status   `json:"status"`
	Reason  string            `json:"reason"`
}

// Decisions returns the latest decision of the Curator on each bullet that it retired or put back on probation, newest
// first. A later status of the bullet removes its decision.
func Decisions(log Log) ([]Decision, error) {
	latest := map[playbook.BulletID]Decision{}
	wasShown := map[playbook.BulletID]bool{}
	err := log.changes(all, func(c change) error {
		d := c.last()
		for _, part := range c {
			for i := range part.Ops {
				op := &part.Ops[i]
				switch op.Kind {
				case playbook.Add, playbook.Put, playbook.SetStatus:
				default:
					continue
				}
				to := newStatus(op)
				again := to == playbook.Probation && wasShown[op.Bullet]
				wasShown[op.Bullet] = to == playbook.Active || to == ""
				if d.Author == Curator && (to == playbook.Retired || again) {
					latest[op.Bullet] = Decision{d.Version, d.Time, op.Bullet, to, op.Reason}
				} else {
					delete(latest, op.Bullet)
				}
			}
		}
		return nil
	})
	return slices.SortedFunc(maps.Values(latest), func(a, b Decision) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(a.ID.Number(), b.ID.Number()))
	}), err
}
