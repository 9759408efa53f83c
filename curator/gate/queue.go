package gate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"debrief/playbook"
)

// MaxWaiting is the maximum number of bullets of a playbook that wait for an experiment. The others retire.
const MaxWaiting = 256

// maxRivals is the maximum number of waiting corrections of one bullet.
const maxRivals = 3

// minVotes is the minimum number of votes for a new experiment on a bullet that is shown to all.
const minVotes = 5

// State is the playbook that the gate decides on, with the changes so far.
type State interface {
	All() iter.Seq[*playbook.Bullet]           // in undefined order
	Bullet(playbook.BulletID) *playbook.Bullet // nil for an unknown bullet
}

// Queue holds the bullets on probation, the waiting candidates and the families. It decides which of them are shown, tested
// or retired. It is not safe for concurrent use.
type Queue struct {
	cfg     Config
	state   State
	set     func(playbook.Op) bool
	changed map[playbook.BulletID]struct{}
	now     time.Time

	full     bool // the delta is full: the next one continues
	trying   map[playbook.BulletID]struct{}
	waiting  map[playbook.BulletID]struct{}
	families map[playbook.BulletID][]playbook.BulletID // families of two or more
}

// NewQueue returns the queue of a playbook. supported reports whether the counts of a rule's bullet qualify it for probation.
// set changes the status of a bullet in the state. It returns false if the delta has no room; then the queue decides no more.
// A queue for reports needs no set.
func NewQueue(cfg Config, state State, supported func(*playbook.Bullet) bool, set func(playbook.Op) bool) *Queue {
	q := &Queue{
		cfg: cfg.WithDefaults(), state: state, set: set,
		trying: map[playbook.BulletID]struct{}{}, waiting: map[playbook.BulletID]struct{}{},
		families: map[playbook.BulletID][]playbook.BulletID{},
	}
	for b := range state.All() {
		switch {
		case b.Status == playbook.Probation:
			q.trying[b.ID] = struct{}{}
		case b.Status == playbook.Candidate && (b.Rule == nil || supported(b)):
			q.waiting[b.ID] = struct{}{}
		}
		if b.Replaces != "" {
			q.families[b.Replaces] = append(q.families[b.Replaces], b.ID)
		}
	}
	for r, members := range q.families {
		if state.Bullet(r) != nil {
			members = append(members, r)
		}
		slices.Sort(members)
		q.families[r] = members
	}
	return q
}

// Decide decides on the bullets with new evidence and fills the free slots. changed contains the bullets with new evidence. A
// zero now disables the idle timeout. Decide reports whether the delta is full, so that the next one has more to decide.
func (q *Queue) Decide(changed map[playbook.BulletID]struct{}, now time.Time) (full bool) {
	q.changed, q.now = changed, now
	q.applyVerdicts()
	q.settleFamilies()
	q.reopen()
	q.recall()
	q.limitWaiting()
	q.admit()
	return q.full
}

// Release shows the bullets that the gate withholds. Use it when the gate is turned off. Corrections of shown bullets continue
// to wait. The status of a rule's bullet follows from its counts; Release does not change it.
func (q *Queue) Release(mode playbook.Gate) {
	reason := fmt.Sprintf("the gate is %s: no bullet is withheld", mode)
	for _, ids := range []map[playbook.BulletID]struct{}{q.trying, q.waiting} {
		list := make([]*playbook.Bullet, 0, len(ids))
		for id := range ids {
			if b := q.state.Bullet(id); b.Rule == nil {
				list = append(list, b)
			}
		}
		slices.SortFunc(list, compareRank)
		for _, b := range list {
			h := q.incumbent(b)
			switch {
			case h == nil || b.Status == playbook.Probation && !h.Shown():
				q.setStatus(b.ID, playbook.Active, 0, playbook.ReasonGateOff, reason)
			case b.Status == playbook.Probation:
				q.setStatus(b.ID, playbook.Candidate, 0, playbook.ReasonPlaceTaken, fmt.Sprintf("bullet %q of the same family is shown", h.ID))
			}
		}
	}
}

// setStatus sets a new status. If the delta has no room, it sets q.full instead.
func (q *Queue) setStatus(id playbook.BulletID, s playbook.Status, share int, code playbook.Reason, reason string) {
	op := playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: s, Share: share, Code: code, Reason: reason}
	if q.full = q.full || !q.set(op); q.full {
		return
	}
	delete(q.trying, id)
	delete(q.waiting, id)
	switch s {
	case playbook.Probation:
		q.trying[id] = struct{}{}
	case playbook.Candidate:
		q.waiting[id] = struct{}{}
	}
}

// incumbent returns another bullet of the same family that is shown to all or on probation, or nil. It prefers a bullet that
// is shown to all.
func (q *Queue) incumbent(b *playbook.Bullet) (h *playbook.Bullet) {
	for _, id := range q.families[Family(b)] {
		m := q.state.Bullet(id)
		if id == b.ID || m == nil || !m.Shown() && m.Status != playbook.Probation {
			continue
		}
		if h == nil || m.Shown() && !h.Shown() {
			h = m
		}
	}
	return h
}

// Family returns the id of a bullet's family: the bullet that it corrects, or itself. A family is a bullet and its
// corrections. At most one of a family is shown or on probation.
func Family(b *playbook.Bullet) playbook.BulletID { return cmp.Or(b.Replaces, b.ID) }

// keptByPerson reports whether a bullet is shown by a person's decision. The gate does not change such a bullet. If a person
// activates a bullet while the gate is on, its new case has the share ShownToAll.
func keptByPerson(b *playbook.Bullet) bool {
	return b.Pinned || b.Shown() && b.CurrentExperiment().Share == ShownToAll
}

// MayReturn reports whether a retired bullet may become a candidate again after enough requests. It returns false for
// bullets that a person retired, and for bullets of rules.
func (c Config) MayReturn(b *playbook.Bullet) bool {
	k := b.CurrentExperiment()
	return b.Status == playbook.Retired && b.Rule == nil && k.Share < ShownToAll && c.MayRetry(&k)
}

// applyVerdicts promotes and retires bullets on probation.
func (q *Queue) applyVerdicts() {
	for _, id := range slices.Sorted(maps.Keys(q.trying)) {
		b := q.state.Bullet(id)
		k := b.CurrentExperiment()
		switch _, moved := q.changed[id]; {
		case b.Status != playbook.Probation: // it was replaced in this loop
			continue
		case b.Pinned:
			q.promote(b, playbook.ReasonPinnedStatus, pinned)
			continue
		case k.Share < 1 || k.Share >= ShownToAll: // imported or restored on probation, without a valid share
			q.setStatus(id, playbook.Probation, q.cfg.Share, playbook.ReasonExperiment, q.experimentText())
			continue
		case k.Shown.Count()+k.Withheld.Count() == 0 && len(q.waiting) > 0 && !q.now.IsZero() && q.now.Sub(b.UpdatedAt) > q.cfg.IdleTimeout:
			q.setStatus(id, playbook.Retired, 0, playbook.ReasonNotApplicable, fmt.Sprintf("no task was applicable in %s, and other bullets wait", q.cfg.IdleTimeout))
			continue
		case !moved:
			continue
		}
		switch v, why := q.cfg.Evaluate(&k); v {
		case Promote:
			q.promote(b, playbook.ReasonHelps, why)
		case Harm:
			q.setStatus(id, playbook.Retired, 0, playbook.ReasonHarms, why)
		case Futile:
			q.setStatus(id, playbook.Retired, 0, playbook.ReasonNoBenefit, why)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(q.waiting)) {
		if b := q.state.Bullet(id); b.Pinned && b.Rule == nil {
			q.promote(b, playbook.ReasonPinnedStatus, pinned)
		}
	}
}

const pinned = "pinned by a person"

func (q *Queue) experimentText() string {
	return fmt.Sprintf("experiment starts: shown to %d %% of the tasks at random", q.cfg.Share)
}

// promote shows a bullet to all and retires the bullet that it replaces. If a person keeps that one, b is not promoted.
func (q *Queue) promote(b *playbook.Bullet, code playbook.Reason, why string) {
	for h := q.incumbent(b); h != nil && !q.full; h = q.incumbent(b) {
		if keptByPerson(h) {
			if b.Status == playbook.Probation {
				q.setStatus(b.ID, playbook.Candidate, 0, playbook.ReasonPlaceTaken, fmt.Sprintf("a person keeps bullet %q, which it would replace; %s", h.ID, why))
			}
			return
		}
		q.setStatus(h.ID, playbook.Retired, 0, playbook.ReasonReplaced, fmt.Sprintf("replaced by bullet %q: %s", b.ID, why))
	}
	q.setStatus(b.ID, playbook.Active, 0, code, why)
}

// settleFamilies ends the probation of a bullet if another bullet of its family is shown, which a person can cause, or is on
// probation with a better rank.
func (q *Queue) settleFamilies() {
	for _, id := range slices.Sorted(maps.Keys(q.trying)) {
		b := q.state.Bullet(id)
		h := q.incumbent(b)
		if h != nil && (h.Shown() || compareRank(h, b) < 0) {
			q.setStatus(id, playbook.Candidate, 0, playbook.ReasonPlaceTaken, fmt.Sprintf("bullet %q of the same family is shown or on probation", h.ID))
		}
	}
}

// reopen starts a new experiment on shown bullets whose outcomes have become worse; see recheckReason.
func (q *Queue) reopen() {
	for _, id := range slices.Sorted(maps.Keys(q.changed)) {
		b := q.state.Bullet(id)
		if b == nil || !b.Shown() || keptByPerson(b) || len(q.trying) >= q.cfg.Slots {
			continue
		}
		if code, why := recheckReason(b); code != "" {
			q.setStatus(id, playbook.Probation, q.cfg.Share, code, why)
		}
	}
}

// recall makes retired bullets candidates again if they have had enough requests since.
func (q *Queue) recall() {
	for _, id := range slices.Sorted(maps.Keys(q.changed)) {
		b := q.state.Bullet(id)
		if b == nil || !q.cfg.MayReturn(b) {
			continue
		}
		if k := b.CurrentExperiment(); q.cfg.ShouldRetry(&k) {
			q.setStatus(id, playbook.Candidate, 0, playbook.ReasonSeconded, fmt.Sprintf("%d more executions request it, and the experiment showed no harm", k.Confirmations))
		}
	}
}

// recheckReason returns the reason to start a new experiment on a bullet that is shown to all, or "". Votes are a reason only
// if the bullet's current case has no randomized outcomes. Votes also depend on the difficulty of the tasks, so a bullet
// that passed an experiment in spite of bad votes would be tested again without end. The counts of a rule's bullet are
// runs, not votes.
func recheckReason(b *playbook.Bullet) (playbook.Reason, string) {
	k := b.CurrentExperiment()
	if drifted, why := HasDrifted(&k); drifted {
		return playbook.ReasonDrift, why
	}
	if n := b.Helpful + b.Harmful; b.Rule == nil && n >= minVotes && b.Harmful >= b.Helpful && k.Withheld.Count() == 0 {
		return playbook.ReasonVotes, fmt.Sprintf("%d of %d votes are harmful", b.Harmful, n)
	}
	return "", ""
}

// compareRank orders bullets by the number of requests, most first, then by age, oldest first.
func compareRank(a, b *playbook.Bullet) int {
	return cmp.Or(
		cmp.Compare(b.CurrentExperiment().Confirmations, a.CurrentExperiment().Confirmations),
		cmp.Compare(a.ID.Number(), b.ID.Number()), cmp.Compare(a.ID, b.ID),
	)
}

// waitingByRank returns the waiting bullets, the best rank first.
func (q *Queue) waitingByRank() []*playbook.Bullet {
	list := make([]*playbook.Bullet, 0, len(q.waiting))
	for id := range q.waiting {
		list = append(list, q.state.Bullet(id))
	}
	slices.SortFunc(list, compareRank)
	return list
}

// limitWaiting retires the waiting bullets of the lowest rank if there are more than maxRivals for a bullet or MaxWaiting in
// total.
func (q *Queue) limitWaiting() {
	rivals, all := map[playbook.BulletID]int{}, 0
	for _, b := range q.waitingByRank() {
		if b.Rule != nil || b.Pinned {
			continue
		}
		if b.Replaces != "" {
			if rivals[b.Replaces]++; rivals[b.Replaces] > maxRivals {
				q.setStatus(b.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("%d other corrections of bullet %q have more requests or are older", maxRivals, b.Replaces))
				continue
			}
		}
		if all++; all > MaxWaiting {
			q.setStatus(b.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("%d other waiting bullets have more requests or are older", MaxWaiting))
		}
	}
}

// admit puts waiting bullets on probation while there are free slots, the best rank first. A bullet with more requests than
// the bullet on probation in its family takes that bullet's slot.
func (q *Queue) admit() {
	for _, b := range q.waitingByRank() {
		if q.full {
			return
		}
		h := q.incumbent(b)
		switch {
		case q.state.Bullet(b.ID).Status != playbook.Candidate: // retired in this loop
			continue
		case h == nil && len(q.trying) >= q.cfg.Slots:
			continue
		case h != nil && (h.Shown() || h.Pinned || h.CurrentExperiment().Confirmations >= b.CurrentExperiment().Confirmations):
			continue
		case h != nil:
			q.setStatus(h.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("fewer requests than bullet %q: %d and %d", b.ID, h.CurrentExperiment().Confirmations, b.CurrentExperiment().Confirmations))
		}
		if r := q.state.Bullet(b.Replaces); r != nil && r.Status == playbook.Candidate && r.Rule == nil && !r.Pinned {
			q.setStatus(r.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("fewer requests than bullet %q: %d and %d", b.ID, r.CurrentExperiment().Confirmations, b.CurrentExperiment().Confirmations))
		}
		q.setStatus(b.ID, playbook.Probation, q.cfg.Share, playbook.ReasonExperiment, q.experimentText())
	}
}
