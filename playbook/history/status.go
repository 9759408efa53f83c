package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/playbook"
)

// Quarantined is a bullet that waits for a person, with the newest change that put it into quarantine or made it a candidate. Its executions include
// those of earlier such changes, because the newest one may have none.
type Quarantined struct {
	*playbook.Bullet
	Version  uint64               `json:"version"`
	Time     time.Time            `json:"time"`
	Reason   string               `json:"reason,omitempty"`
	From     []string             `json:"from,omitempty"`     // the handle of each execution, a space, and its source
	Evidence []*playbook.Evidence `json:"evidence,omitempty"` // of these executions
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

// Statuses follows a log. It keeps the changes that put bullets into quarantine, and the latest decisions of the Curator. The zero value is at the
// beginning of a log. It is not safe for concurrent use.
type Statuses struct {
	parts     playbook.ChangeAssembler
	held      map[playbook.BulletID]Quarantined // see recordHold; the field Bullet is not set
	decisions map[playbook.BulletID]Decision    // see recordDecision
	wasShown  map[playbook.BulletID]bool        // whether the last status of a bullet is active
}

// Add adds the next delta of the log.
func (s *Statuses) Add(d *playbook.Delta) {
	c := change(s.parts.Add(d)) // nil until the last delta of a change
	if s.held == nil {
		s.held = map[playbook.BulletID]Quarantined{}
		s.decisions = map[playbook.BulletID]Decision{}
		s.wasShown = map[playbook.BulletID]bool{}
	}
	for _, part := range c {
		for i := range part.Ops {
			op := &part.Ops[i]
			s.recordHold(c, part, op)
			s.recordDecision(c.last(), op)
		}
	}
}

// recordHold records the newest change that put a bullet into quarantine, or made it a candidate, and the evidence of all such changes.
func (s *Statuses) recordHold(c change, part *playbook.Delta, op *playbook.Op) {
	if to := newStatus(op); to != playbook.Quarantined && to != playbook.Candidate {
		return
	}
	q := s.held[op.Bullet]
	q.Version = c.last().Version
	q.Time = c.last().Time
	q.Reason = cmp.Or(op.Reason, c.last().Reason)
	for _, cover := range c.support(part, op) {
		if e := cover.Evidence; e != nil {
			q.Evidence = append(q.Evidence, e)
			q.From = append(q.From, strings.TrimSuffix(e.Execution+" "+e.Source, " "))
		}
	}
	s.held[op.Bullet] = q
}

// recordDecision records a decision of the Curator. Any later status of the bullet removes the decision.
func (s *Statuses) recordDecision(d *playbook.Delta, op *playbook.Op) {
	if op.Kind != playbook.Add && op.Kind != playbook.Put && op.Kind != playbook.SetStatus {
		return
	}
	to := newStatus(op) // all these operations set one, so empty means active
	isBackOnProbation := to == playbook.Probation && s.wasShown[op.Bullet]
	s.wasShown[op.Bullet] = to == playbook.Active || to == ""
	if d.Author == Curator && (to == playbook.Retired || isBackOnProbation) {
		s.decisions[op.Bullet] = Decision{Version: d.Version, Time: d.Time, ID: op.Bullet, Status: to, Reason: op.Reason}
	} else {
		delete(s.decisions, op.Bullet)
	}
}

// Quarantine returns the bullets of p that wait for a person, oldest first, with the reason and the evidence from the log.
func (s *Statuses) Quarantine(p *playbook.Playbook) []*Quarantined {
	var all []*Quarantined
	for b := range p.All() {
		if b.AwaitsPerson() {
			q := s.held[b.ID]
			q.Bullet = b
			all = append(all, &q)
		}
	}
	slices.SortFunc(all, func(a, b *Quarantined) int { return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Decisions returns the decisions of the Curator that still hold: to retire a bullet, or to put it back on probation. The newest comes first.
func (s *Statuses) Decisions() []Decision {
	return slices.SortedFunc(maps.Values(s.decisions), func(a, b Decision) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(a.ID.Number(), b.ID.Number()))
	})
}
