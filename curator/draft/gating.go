package draft

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
)

// Limits of the gate.
const (
	maxTrials  = 200 // outcomes of one reflection
	maxRivals  = 3   // waiting corrections of one bullet
	maxWaiting = 256 // waiting bullets of a book
)

// addOutcomes drafts the outcome of a reflection's task for the bullets that were applicable to it. It ignores bullets that
// were removed or have a newer case.
func (d *draft) addOutcomes(k *Item) {
	if d.mode == playbook.GateOff || !k.Reflection.Outcome.Known() || d.trustLevel(k.coverIndex) == Untrusted {
		return
	}
	s := playbook.Exposure{Score: int(math.Round(k.Reflection.FirstRoundScore * playbook.MaxScore))}
	trials := k.Reflection.Exposures[:min(len(k.Reflection.Exposures), maxTrials)]
	for i, t := range trials {
		if slices.ContainsFunc(trials[:i], func(o events.Exposure) bool { return o.Bullet == t.Bullet }) {
			continue // a task counts once for each bullet
		}
		s.Arm = t.Arm
		if b := d.get(t.Bullet); b != nil && (d.Trust[d.sourceOf(k.coverIndex)].Level != Limited || d.refuseSource(b, k.coverIndex) == nil) {
			d.addOutcome(b, t.Experiment, s, k.coverIndex)
		}
	}
}

// decided reports whether a case counts the outcomes of an arm.
func decided(a playbook.Arm) bool {
	return a == playbook.ArmShown || a == playbook.ArmWithheld || a == playbook.ArmOpen
}

// addOutcome drafts one outcome for a bullet's case, if the bullet still has the case with this number.
func (d *draft) addOutcome(b *playbook.Bullet, number int, s playbook.Exposure, cover int) {
	if !decided(s.Arm) {
		return
	}
	op := playbook.Op{Kind: playbook.AddExposures, Bullet: b.ID, ExperimentNumber: number, Exposures: []playbook.Exposure{s}, Support: []int{cover}}
	bullets := 1
	if d.changed[b.ID] != nil {
		bullets = 0
	}
	if !d.hasRoom(&op, bullets) {
		return
	}
	if now := b.Apply(&op, d.covers); now != nil {
		d.changed[b.ID] = now
		d.evidenceChanged[b.ID] = struct{}{}
		d.sum(countKey{bullet: b.ID, kind: playbook.AddExposures, number: number}, op)
	}
}

// propose drafts a proposal of a model or a lesson. A proposal from an untrusted source goes to quarantine. If the gate is
// on, new text becomes a candidate. propose returns the reason if the proposal is rejected, or nil.
func (d *draft) propose(op playbook.Op) *screen.Refusal {
	old := d.get(op.Bullet)
	if old == nil && op.Kind != playbook.Add {
		return unknownBullet(op.Bullet)
	}
	if op.Kind == playbook.Confirm {
		op.Status = playbook.Candidate // the status that an ADD of the same text would have
		return d.second(&op, duplicateText(old))
	}
	if level, source := d.lowestTrust(op.Support); level == Untrusted {
		return d.quarantine(op, screen.Refusef(playbook.ReasonUntrusted, "source %q is not trusted", source))
	}
	if d.mode == playbook.GateOn {
		return d.proposeGated(op, old)
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge || op.Kind == playbook.Remove {
		if b := d.contradictedBullet(&op); b != nil {
			if op.Kind == playbook.Merge {
				op.Bullet = b.ID
			}
			return d.quarantine(op, refuseContradiction(b))
		}
	}
	return d.change(&op)
}

// quarantine drafts the new text of a proposal as a bullet in quarantine, which waits for a person. The bullet that it would
// replace stays. A proposal without a text, such as a removal, is rejected with the reason why.
func (d *draft) quarantine(op playbook.Op, why *screen.Refusal) *screen.Refusal {
	add := playbook.Op{
		Kind: playbook.Add, Section: op.Section, Content: op.Content, Status: playbook.Quarantined, Support: op.Support,
		Code: why.Code, Reason: screen.Truncate(why.Reason, screen.MaxReason),
	}
	switch op.Kind {
	case playbook.Add:
		add.Bullet = op.Bullet // change refuses an ADD with an id
	case playbook.Update, playbook.Merge:
		b := d.get(op.Bullet)
		add.Section, add.Replaces = cmp.Or(add.Section, b.Section), b.ID
	default:
		return why
	}
	return d.change(&add)
}

// proposeGated drafts a proposal while the gate is on. New text becomes a candidate for an experiment. A proposal cannot
// remove a bullet that is shown to all; only the gate can retire it.
func (d *draft) proposeGated(op playbook.Op, old *playbook.Bullet) *screen.Refusal {
	switch op.Kind {
	case playbook.Add:
		op.Status = playbook.Candidate
	case playbook.Update:
		if playbook.ContentKeyOf(op.Content) != playbook.ContentKeyOf(old.Content) {
			return d.addCorrection(op, old)
		}
		op.Content, op.Rule = old.Content, old.Rule // it can only change the section
	case playbook.Merge:
		if playbook.ContentKeyOf(op.Content) != playbook.ContentKeyOf(old.Content) {
			return d.addCorrection(op, old)
		}
		op.Content = old.Content
		for _, id := range op.Sources {
			if src := d.get(id); src != nil && src.Shown() {
				return d.refuseProven(src)
			}
		}
	case playbook.Remove:
		switch {
		case old.Pinned:
			return screen.Refusef(playbook.ReasonPinned, "bullet %q is pinned", old.ID)
		case old.Shown():
			return d.refuseProven(old)
		case old.Status != playbook.Candidate && old.Status != playbook.Probation:
			return screen.Refusef(playbook.ReasonStatus, "bullet %q is already %s", old.ID, old.Status)
		}
		op = playbook.Op{
			Kind: playbook.SetStatus, Bullet: old.ID, Status: playbook.Retired, Support: op.Support,
			Code: playbook.ReasonRemoval, Reason: cmp.Or(op.Reason, "removal requested before the experiment ended"),
		}
	}
	return d.change(&op)
}

func (d *draft) refuseProven(b *playbook.Bullet) *screen.Refusal {
	return screen.Refusef(playbook.ReasonStatus, "bullet %q is shown to all tasks: only outcomes can retire it, not a proposal", b.ID)
}

// addCorrection drafts a correction of a bullet: a candidate that can replace it.
func (d *draft) addCorrection(op playbook.Op, old *playbook.Bullet) *screen.Refusal {
	return d.change(&playbook.Op{
		Kind: playbook.Add, Section: cmp.Or(op.Section, old.Section), Content: op.Content, Status: playbook.Candidate,
		Replaces: family(old), Support: op.Support, Reason: op.Reason,
	})
}

// second drafts a SECOND: one more request for the text of a bullet that waits or is on probation. In all other cases it
// returns why, the refusal of the duplicate.
func (d *draft) second(op *playbook.Op, why *screen.Refusal) *screen.Refusal {
	b := d.get(why.DuplicateOf)
	asks := op.Kind == playbook.Confirm || op.Status == playbook.Candidate
	waits := b.Status == playbook.Candidate || b.Status == playbook.Probation || d.mayReturn(b)
	if d.mode != playbook.GateOn || d.byPerson || !asks || !waits {
		return why
	}
	key := countKey{bullet: b.ID, kind: playbook.Confirm}
	asked := func(i int) bool { // whether this draft has the request of cover i
		if sum := d.sums[key]; sum != nil && slices.Contains(sum.Support, i) {
			return true
		}
		return slices.ContainsFunc(d.ops, func(made playbook.Op) bool {
			return made.Bullet == b.ID && (made.Kind == playbook.Add || made.Kind == playbook.Confirm) && slices.Contains(made.Support, i)
		})
	}
	support := slices.DeleteFunc(slices.Clone(op.Support), asked)
	if len(support) == 0 {
		return why
	}
	support, mistrusted := d.trustedSupport(b, support)
	if len(support) == 0 {
		return mistrusted
	}
	second := playbook.Op{Kind: playbook.Confirm, Bullet: b.ID, Support: support}
	if !d.hasRoom(&second, 1) {
		return errFull
	}
	d.changed[b.ID] = b.Apply(&second, d.covers)
	d.sum(key, second)
	if b.Status == playbook.Retired {
		d.evidenceChanged[b.ID] = struct{}{}
	}
	return nil
}

// mayReturn reports whether a retired bullet may become a candidate again after enough requests. It returns false for
// bullets that a person retired, and for bullets of rules.
func (d *draft) mayReturn(b *playbook.Bullet) bool {
	k := b.CurrentExperiment()
	return d.mode == playbook.GateOn && b.Status == playbook.Retired && b.Rule == nil && k.Share < gate.ShownToAll && d.Gate.MayRetry(&k)
}

// family returns the id of a bullet's family: the bullet that it corrects, or itself. A family is a bullet and its
// corrections. At most one of a family is shown or on probation.
func family(b *playbook.Bullet) playbook.BulletID { return cmp.Or(b.Replaces, b.ID) }

// keptByPerson reports whether a bullet is shown by a person's decision. The gate does not change such a bullet. If a person
// activates a bullet while the gate is on, its new case has the share gate.ShownToAll.
func keptByPerson(b *playbook.Bullet) bool {
	return b.Pinned || b.Shown() && b.CurrentExperiment().Share == gate.ShownToAll
}

// personShare returns the share that marks a person's decision on a bullet: to show it while the gate is on, or to retire it in
// any mode. Otherwise it returns 0.
func (d *draft) personShare(s playbook.Status) int {
	if d.byPerson && (d.mode == playbook.GateOn || s == playbook.Retired) {
		return gate.ShownToAll
	}
	return 0
}

// all yields every bullet as the draft has it, in undefined order.
func (d *draft) all() iter.Seq[*playbook.Bullet] {
	return func(yield func(*playbook.Bullet) bool) {
		for b := range d.base.All() {
			if _, changed := d.changed[b.ID]; !changed && !yield(b) {
				return
			}
		}
		for _, b := range d.changed {
			if b != nil && !yield(b) {
				return
			}
		}
	}
}

// queue holds the bullets on probation, the waiting candidates and the families. It drafts the gate's decisions.
type queue struct {
	*draft
	full     bool // the delta is full: the next one continues
	trying   map[playbook.BulletID]struct{}
	waiting  map[playbook.BulletID]struct{}
	families map[playbook.BulletID][]playbook.BulletID // families of two or more
}

func (d *draft) queue() *queue {
	q := &queue{
		draft: d, trying: map[playbook.BulletID]struct{}{}, waiting: map[playbook.BulletID]struct{}{},
		families: map[playbook.BulletID][]playbook.BulletID{},
	}
	for b := range d.all() {
		switch {
		case b.Status == playbook.Probation:
			q.trying[b.ID] = struct{}{}
		case b.Status == playbook.Candidate && (b.Rule == nil || d.ruleIsSupported(b)):
			q.waiting[b.ID] = struct{}{}
		}
		if b.Replaces != "" {
			q.families[b.Replaces] = append(q.families[b.Replaces], b.ID)
		}
	}
	for r, members := range q.families {
		if d.get(r) != nil {
			members = append(members, r)
		}
		slices.Sort(members)
		q.families[r] = members
	}
	return q
}

// set drafts a new status. If the delta has no room, it sets q.full instead.
func (q *queue) set(id playbook.BulletID, s playbook.Status, share int, code playbook.Reason, reason string) {
	op := playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: s, Share: share, Code: code, Reason: screen.Truncate(reason, screen.MaxReason)}
	if q.byPerson {
		op.Support = []int{0} // the edit
	}
	bullets := 1
	if q.changed[id] != nil {
		bullets = 0
	}
	if q.full = q.full || !q.hasRoom(&op, bullets); q.full {
		return
	}
	q.changeBullet(op)
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
func (q *queue) incumbent(b *playbook.Bullet) (h *playbook.Bullet) {
	for _, id := range q.families[family(b)] {
		m := q.get(id)
		if id == b.ID || m == nil || !m.Shown() && m.Status != playbook.Probation {
			continue
		}
		if h == nil || m.Shown() && !h.Shown() {
			h = m
		}
	}
	return h
}

// decideGate drafts the gate's decisions on the bullets with new evidence, and fills the free slots. It appends to left, the
// bullets that the next delta must check, those for which the delta has no room. It reports in again whether the next delta
// has more to decide.
func (d *draft) decideGate(left []playbook.BulletID) (still []playbook.BulletID, again bool) {
	if d.mode != playbook.GateOn {
		return left, false
	}
	if d.byPerson {
		return left, true
	}
	q := d.queue()
	q.applyVerdicts()
	q.settleFamilies()
	q.reopen()
	q.recall()
	q.limitWaiting()
	q.admit()
	if q.full {
		left = slices.AppendSeq(left, maps.Keys(d.evidenceChanged))
		slices.Sort(left)
		left = slices.Compact(left)
	}
	return left, q.full
}

// applyVerdicts promotes and retires bullets on probation.
func (q *queue) applyVerdicts() {
	for _, id := range slices.Sorted(maps.Keys(q.trying)) {
		b := q.get(id)
		k := b.CurrentExperiment()
		switch _, moved := q.evidenceChanged[id]; {
		case b.Status != playbook.Probation: // it was replaced in this loop
			continue
		case b.Pinned:
			q.promote(b, playbook.ReasonPinnedStatus, pinned)
			continue
		case k.Share < 1 || k.Share >= gate.ShownToAll: // imported or restored on probation, without a valid share
			q.set(id, playbook.Probation, q.Gate.Share, playbook.ReasonExperiment, q.experimentText())
			continue
		case k.Shown.Count()+k.Withheld.Count() == 0 && len(q.waiting) > 0 && !q.Now.IsZero() && q.Now.Sub(b.UpdatedAt) > q.Gate.IdleTimeout:
			q.set(id, playbook.Retired, 0, playbook.ReasonNotApplicable, fmt.Sprintf("no task was applicable in %s, and other bullets wait", q.Gate.IdleTimeout))
			continue
		case !moved:
			continue
		}
		switch v, why := q.Gate.Evaluate(&k); v {
		case gate.Promote:
			q.promote(b, playbook.ReasonHelps, why)
		case gate.Harm:
			q.set(id, playbook.Retired, 0, playbook.ReasonHarms, why)
		case gate.Futile:
			q.set(id, playbook.Retired, 0, playbook.ReasonNoBenefit, why)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(q.waiting)) {
		if b := q.get(id); b.Pinned && b.Rule == nil {
			q.promote(b, playbook.ReasonPinnedStatus, pinned)
		}
	}
}

const pinned = "pinned by a person"

func (q *queue) experimentText() string {
	return fmt.Sprintf("experiment starts: shown to %d %% of the tasks at random", q.Gate.Share)
}

// promote shows a bullet to all and retires the bullet that it replaces. If a person keeps that one, b is not promoted.
func (q *queue) promote(b *playbook.Bullet, code playbook.Reason, why string) {
	for h := q.incumbent(b); h != nil && !q.full; h = q.incumbent(b) {
		if keptByPerson(h) {
			if b.Status == playbook.Probation {
				q.set(b.ID, playbook.Candidate, 0, playbook.ReasonPlaceTaken, fmt.Sprintf("a person keeps bullet %q, which it would replace; %s", h.ID, why))
			}
			return
		}
		q.set(h.ID, playbook.Retired, 0, playbook.ReasonReplaced, fmt.Sprintf("replaced by bullet %q: %s", b.ID, why))
	}
	q.set(b.ID, playbook.Active, 0, code, why)
}

// settleFamilies ends the probation of a bullet if another bullet of its family is shown, which a person can cause, or is on
// probation with a better rank.
func (q *queue) settleFamilies() {
	for _, id := range slices.Sorted(maps.Keys(q.trying)) {
		b := q.get(id)
		h := q.incumbent(b)
		if h != nil && (h.Shown() || compareRank(h, b) < 0) {
			q.set(id, playbook.Candidate, 0, playbook.ReasonPlaceTaken, fmt.Sprintf("bullet %q of the same family is shown or on probation", h.ID))
		}
	}
}

// reopen starts a new experiment on shown bullets whose outcomes have become worse; see recheckReason.
func (q *queue) reopen() {
	for _, id := range slices.Sorted(maps.Keys(q.evidenceChanged)) {
		b := q.get(id)
		if b == nil || !b.Shown() || keptByPerson(b) || len(q.trying) >= q.Gate.Slots {
			continue
		}
		if code, why := recheckReason(b); code != "" {
			q.set(id, playbook.Probation, q.Gate.Share, code, why)
		}
	}
}

// recall makes retired bullets candidates again if they have had enough requests since.
func (q *queue) recall() {
	for _, id := range slices.Sorted(maps.Keys(q.evidenceChanged)) {
		b := q.get(id)
		if b == nil || !q.mayReturn(b) {
			continue
		}
		if k := b.CurrentExperiment(); q.Gate.ShouldRetry(&k) {
			q.set(id, playbook.Candidate, 0, playbook.ReasonSeconded, fmt.Sprintf("%d more executions request it, and the experiment showed no harm", k.Confirmations))
		}
	}
}

// recheckReason returns the reason to start a new experiment on a bullet that is shown to all, or "". Votes are a reason only
// if the bullet's current case has no randomized outcomes. Votes also depend on the difficulty of the tasks, so a bullet
// that passed an experiment in spite of bad votes would be tested again without end. The counts of a rule's bullet are
// runs, not votes.
func recheckReason(b *playbook.Bullet) (playbook.Reason, string) {
	k := b.CurrentExperiment()
	if drifted, why := gate.HasDrifted(&k); drifted {
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
func (q *queue) waitingByRank() []*playbook.Bullet {
	list := make([]*playbook.Bullet, 0, len(q.waiting))
	for id := range q.waiting {
		list = append(list, q.get(id))
	}
	slices.SortFunc(list, compareRank)
	return list
}

// limitWaiting retires the waiting bullets of the lowest rank if there are more than maxRivals for a bullet or maxWaiting in
// total.
func (q *queue) limitWaiting() {
	rivals, all := map[playbook.BulletID]int{}, 0
	for _, b := range q.waitingByRank() {
		if b.Rule != nil || b.Pinned {
			continue
		}
		if b.Replaces != "" {
			if rivals[b.Replaces]++; rivals[b.Replaces] > maxRivals {
				q.set(b.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("%d other corrections of bullet %q have more requests or are older", maxRivals, b.Replaces))
				continue
			}
		}
		if all++; all > maxWaiting {
			q.set(b.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("%d other waiting bullets have more requests or are older", maxWaiting))
		}
	}
}

// admit puts waiting bullets on probation while there are free slots, the best rank first. A bullet with more requests than
// the bullet on probation in its family takes that bullet's slot.
func (q *queue) admit() {
	for _, b := range q.waitingByRank() {
		if q.full {
			return
		}
		h := q.incumbent(b)
		switch {
		case q.get(b.ID).Status != playbook.Candidate: // retired in this loop
			continue
		case h == nil && len(q.trying) >= q.Gate.Slots:
			continue
		case h != nil && (h.Shown() || h.Pinned || h.CurrentExperiment().Confirmations >= b.CurrentExperiment().Confirmations):
			continue
		case h != nil:
			q.set(h.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("fewer requests than bullet %q: %d and %d", b.ID, h.CurrentExperiment().Confirmations, b.CurrentExperiment().Confirmations))
		}
		if r := q.get(b.Replaces); r != nil && r.Status == playbook.Candidate && r.Rule == nil && !r.Pinned {
			q.set(r.ID, playbook.Retired, 0, playbook.ReasonFewerRequests, fmt.Sprintf("fewer requests than bullet %q: %d and %d", b.ID, r.CurrentExperiment().Confirmations, b.CurrentExperiment().Confirmations))
		}
		q.set(b.ID, playbook.Probation, q.Gate.Share, playbook.ReasonExperiment, q.experimentText())
	}
}

// releaseWithheld shows the bullets that the gate withheld; it is called when the gate is turned off. Corrections of shown bullets
// continue to wait.
func (d *draft) releaseWithheld(mode playbook.Gate) {
	q := d.queue()
	reason := fmt.Sprintf("the gate is %s: no bullet is withheld", mode)
	for b := range d.all() {
		if b.Rule != nil { // refreshRules sets the status from the counts
			d.stale[b.ID] = struct{}{}
			delete(q.trying, b.ID)
			delete(q.waiting, b.ID)
		}
	}
	for _, ids := range []map[playbook.BulletID]struct{}{q.trying, q.waiting} {
		list := make([]*playbook.Bullet, 0, len(ids))
		for id := range ids {
			list = append(list, d.get(id))
		}
		slices.SortFunc(list, compareRank)
		for _, b := range list {
			h := q.incumbent(b)
			switch {
			case h == nil || b.Status == playbook.Probation && !h.Shown():
				q.set(b.ID, playbook.Active, 0, playbook.ReasonGateOff, reason)
			case b.Status == playbook.Probation:
				q.set(b.ID, playbook.Candidate, 0, playbook.ReasonPlaceTaken, fmt.Sprintf("bullet %q of the same family is shown", h.ID))
			}
		}
	}
}
