package curator

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
)

// Bounds on what waits.
const (
	maxTrials  = 200 // outcomes of one reflection
	maxRivals  = 3   // waiting corrections of one bullet
	maxWaiting = 256 // waiting bullets of a book
)

// outcomes drafts what a reflection's task says about the bullets that bear on it. Bullets that are gone or have another case by now are past, which is nothing to report.
func (d *draft) outcomes(k *docket) {
	if d.mode == playbook.GateOff || !k.r.Outcome.Known() || d.level(k.cover) == Untrusted {
		return
	}
	s := playbook.Seen{Score: int(math.Round(k.r.Score * playbook.MaxScore))}
	trials := k.r.Trials[:min(len(k.r.Trials), maxTrials)]
	for i, t := range trials {
		if slices.ContainsFunc(trials[:i], func(o events.Trial) bool { return o.Bullet == t.Bullet }) {
			continue // one task is one outcome
		}
		s.Arm = t.Arm
		if b := d.get(t.Bullet); b != nil && (d.trust[d.source(k.cover)].level != Limited || d.mistrusts(b, k.cover) == nil) {
			d.saw(b, t.Case, s, k.cover)
		}
	}
}

// decided reports whether an arm is one that a case counts.
func decided(a playbook.Arm) bool {
	return a == playbook.ArmShown || a == playbook.ArmWithheld || a == playbook.ArmOpen
}

// saw drafts one outcome of a bullet's case, if it still has that case.
func (d *draft) saw(b *playbook.Bullet, number int, s playbook.Seen, cover int) {
	if !decided(s.Arm) {
		return
	}
	op := playbook.Op{Kind: playbook.Trial, Bullet: b.ID, Case: number, Seen: []playbook.Seen{s}, Support: []int{cover}}
	bullets := 1
	if d.changed[b.ID] != nil {
		bullets = 0
	}
	if !d.room(&op, bullets) {
		return
	}
	if now := b.After(&op, d.covers); now != nil {
		d.changed[b.ID] = now
		d.tried[b.ID] = struct{}{}
		d.sum(tally{bullet: b.ID, kind: playbook.Trial, number: number}, op)
	}
}

// propose drafts what a model or a lesson asks for: as far as its sources are trusted, and with the gate on as something
// to be tried. It returns why not, or nil.
func (d *draft) propose(op playbook.Op) *refusal {
	old := d.get(op.Bullet)
	if old == nil && op.Kind != playbook.Add {
		return unknown(op.Bullet)
	}
	if op.Kind == playbook.Second {
		op.Status = playbook.Candidate // as which the same words would come
		return d.again(&op, says(old))
	}
	if level, source := d.least(op.Support); level == Untrusted {
		return d.quarantine(op, fmt.Sprintf("source %q is not trusted", source))
	}
	if d.mode == playbook.GateOn {
		return d.gated(op, old)
	}
	if op.Kind == playbook.Update || op.Kind == playbook.Merge || op.Kind == playbook.Remove {
		if b := d.contradicted(&op); b != nil {
			if op.Kind == playbook.Merge {
				op.Bullet = b.ID
			}
			return d.quarantine(op, contradicts(b))
		}
	}
	return d.change(&op)
}

// quarantine drafts new words as a bullet that waits for a person. What it would replace stays; what asks for the end of
// a bullet and has no words is turned down.
func (d *draft) quarantine(op playbook.Op, why string) *refusal {
	add := playbook.Op{Kind: playbook.Add, Section: op.Section, Content: op.Content, Status: playbook.Quarantined, Support: op.Support, Reason: clip(why, maxReason)}
	switch op.Kind {
	case playbook.Add:
		add.Bullet = op.Bullet // which is refused
	case playbook.Update, playbook.Merge:
		b := d.get(op.Bullet)
		add.Section, add.Replaces = cmp.Or(add.Section, b.Section), b.ID
	default:
		return no("%s", why)
	}
	return d.change(&add)
}

// gated drafts a proposal where the gate is on. New words are to be tried; of what is shown to all, the gate decides.
func (d *draft) gated(op playbook.Op, old *playbook.Bullet) *refusal {
	switch op.Kind {
	case playbook.Add:
		op.Status = playbook.Candidate
	case playbook.Update:
		if playbook.WordingOf(op.Content) != playbook.WordingOf(old.Content) {
			return d.rival(op, old)
		}
		op.Content, op.Rule = old.Content, old.Rule // another section at most
	case playbook.Merge:
		if playbook.WordingOf(op.Content) != playbook.WordingOf(old.Content) {
			return d.rival(op, old)
		}
		op.Content = old.Content
		for _, id := range op.Sources {
			if src := d.get(id); src != nil && src.Shown() {
				return d.proven(src)
			}
		}
	case playbook.Remove:
		switch {
		case old.Pinned:
			return no("bullet %q is pinned", old.ID)
		case old.Shown():
			return d.proven(old)
		case old.Status != playbook.Candidate && old.Status != playbook.Probation:
			return no("bullet %q is %s already", old.ID, old.Status)
		}
		op = playbook.Op{Kind: playbook.SetStatus, Bullet: old.ID, Status: playbook.Retired, Support: op.Support, Reason: cmp.Or(op.Reason, "asked to be removed before it was proven")}
	}
	return d.change(&op)
}

func (d *draft) proven(b *playbook.Bullet) *refusal {
	return no("bullet %q is shown to all tasks: outcomes decide whether it stays, not a proposal", b.ID)
}

// rival drafts a correction of a bullet as a candidate for its place.
func (d *draft) rival(op playbook.Op, old *playbook.Bullet) *refusal {
	return d.change(&playbook.Op{
		Kind: playbook.Add, Section: cmp.Or(op.Section, old.Section), Content: op.Content, Status: playbook.Candidate,
		Replaces: root(old), Support: op.Support, Reason: op.Reason,
	})
}

// again drafts that somebody asks for the words of a bullet that is yet to be proven, or says why not.
func (d *draft) again(op *playbook.Op, why *refusal) *refusal {
	b := d.get(why.same)
	asks := op.Kind == playbook.Second || op.Status == playbook.Candidate
	waits := b.Status == playbook.Candidate || b.Status == playbook.Probation || d.mayReturn(b)
	if d.mode != playbook.GateOn || d.person || !asks || !waits {
		return why
	}
	key := tally{bullet: b.ID, kind: playbook.Second}
	asked := func(i int) bool { // in this draft
		if sum := d.sums[key]; sum != nil && slices.Contains(sum.Support, i) {
			return true
		}
		return slices.ContainsFunc(d.ops, func(made playbook.Op) bool {
			return made.Bullet == b.ID && (made.Kind == playbook.Add || made.Kind == playbook.Second) && slices.Contains(made.Support, i)
		})
	}
	support := slices.DeleteFunc(slices.Clone(op.Support), asked)
	if len(support) == 0 {
		return why
	}
	support, mistrusted := d.believed(b, support)
	if len(support) == 0 {
		return mistrusted
	}
	second := playbook.Op{Kind: playbook.Second, Bullet: b.ID, Support: support}
	if !d.room(&second, 1) {
		return errFull
	}
	d.changed[b.ID] = b.After(&second, d.covers)
	d.sum(key, second)
	if b.Status == playbook.Retired {
		d.tried[b.ID] = struct{}{}
	}
	return nil
}

// mayReturn reports whether a bullet has retired and may be tried again when enough ask for it: not where a person took
// it out, and not what a rule counts.
func (d *draft) mayReturn(b *playbook.Bullet) bool {
	k := b.TheCase()
	return d.mode == playbook.GateOn && b.Status == playbook.Retired && b.Rule == nil && k.Share < shownToAll && d.gate.MayReturn(&k)
}

// root names the family of a bullet and those that would replace it: one of them at most is shown or on probation.
func root(b *playbook.Bullet) playbook.BulletID { return cmp.Or(b.Replaces, b.ID) }

// kept reports whether a bullet is shown on a person's word, which no gate goes against. A person who has a bullet shown
// while the gate is on opens a case of it that shows it to all.
func kept(b *playbook.Bullet) bool {
	return b.Pinned || b.Shown() && b.TheCase().Share == shownToAll
}

const shownToAll = 100

// decree is the share that says that a person has decided on a bullet: to have it shown while the gate is on, or to take it
// out, which holds under any gate.
func (d *draft) decree(s playbook.Status) int {
	if d.person && (d.mode == playbook.GateOn || s == playbook.Retired) {
		return shownToAll
	}
	return 0
}

// all yields every bullet as the draft has it, in no order.
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

// queue is who is on probation, who waits for it, and who is whose rival.
type queue struct {
	*draft
	full     bool // the delta: the next one goes on
	trying   map[playbook.BulletID]struct{}
	waiting  map[playbook.BulletID]struct{}
	families map[playbook.BulletID][]playbook.BulletID // of two and more, by root
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
		case b.Status == playbook.Candidate && (b.Rule == nil || d.holds(b)):
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

// set drafts a new status, as far as there is room.
func (q *queue) set(id playbook.BulletID, s playbook.Status, share int, reason string) {
	op := playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: s, Share: share, Reason: clip(reason, maxReason)}
	if q.person {
		op.Support = []int{0} // the edit
	}
	bullets := 1
	if q.changed[id] != nil {
		bullets = 0
	}
	if q.full = q.full || !q.room(&op, bullets); q.full {
		return
	}
	q.turn(op)
	delete(q.trying, id)
	delete(q.waiting, id)
	switch s {
	case playbook.Probation:
		q.trying[id] = struct{}{}
	case playbook.Candidate:
		q.waiting[id] = struct{}{}
	}
}

// holder is the one of a bullet's family that is shown to all or to some, itself aside; nil if there is none.
func (q *queue) holder(b *playbook.Bullet) (h *playbook.Bullet) {
	for _, id := range q.families[root(b)] {
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

// decide has the gate decide on the bullets whose evidence has moved, and fills the places that are free. Left are the
// bullets that another delta is to look at; it gets those that there was no room for, and whether there is more to do.
func (d *draft) decide(left []playbook.BulletID) (still []playbook.BulletID, again bool) {
	if d.mode != playbook.GateOn {
		return left, false
	}
	if d.person {
		return left, true
	}
	q := d.queue()
	q.judge()
	q.settleFamilies()
	q.reopen()
	q.recall()
	q.thin()
	q.admit()
	if q.full {
		left = slices.AppendSeq(left, maps.Keys(d.tried))
		slices.Sort(left)
		left = slices.Compact(left)
	}
	return left, q.full
}

// judge promotes and retires bullets on probation.
func (q *queue) judge() {
	for _, id := range slices.Sorted(maps.Keys(q.trying)) {
		b := q.get(id)
		k := b.TheCase()
		switch _, moved := q.tried[id]; {
		case b.Status != playbook.Probation: // another has taken its place
			continue
		case b.Pinned:
			q.promote(b, pinned)
			continue
		case k.Share < 1 || k.Share >= shownToAll: // it came whole, from elsewhere
			q.set(id, playbook.Probation, q.gate.Share, q.byChance())
			continue
		case k.Shown.N()+k.Withheld.N() == 0 && len(q.waiting) > 0 && !q.now.IsZero() && q.now.Sub(b.UpdatedAt) > q.gate.Patience:
			q.set(id, playbook.Retired, 0, fmt.Sprintf("no task was about it in %s, and others wait", q.gate.Patience))
			continue
		case !moved:
			continue
		}
		switch v, why := q.gate.Judge(&k); v {
		case gate.Promote:
			q.promote(b, why)
		case gate.Harm, gate.Futile:
			q.set(id, playbook.Retired, 0, why)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(q.waiting)) {
		if b := q.get(id); b.Pinned && b.Rule == nil {
			q.promote(b, pinned)
		}
	}
}

const pinned = "pinned: a person has it shown"

func (q *queue) byChance() string {
	return fmt.Sprintf("%d %% of the tasks are shown it, by chance", q.gate.Share)
}

// promote shows a bullet to all, in place of what it replaces. Where a person keeps that one, it stays.
func (q *queue) promote(b *playbook.Bullet, why string) {
	for h := q.holder(b); h != nil && !q.full; h = q.holder(b) {
		if kept(h) {
			if b.Status == playbook.Probation {
				q.set(b.ID, playbook.Candidate, 0, fmt.Sprintf("a person keeps bullet %q in its place; %s", h.ID, why))
			}
			return
		}
		q.set(h.ID, playbook.Retired, 0, fmt.Sprintf("bullet %q takes its place: %s", b.ID, why))
	}
	q.set(b.ID, playbook.Active, 0, why)
}

// settleFamilies takes off probation what somebody has shown another of its family beside.
func (q *queue) settleFamilies() {
	for _, id := range slices.Sorted(maps.Keys(q.trying)) {
		b := q.get(id)
		h := q.holder(b)
		if h != nil && (h.Shown() || stronger(h, b) < 0) {
			q.set(id, playbook.Candidate, 0, fmt.Sprintf("bullet %q is in its place", h.ID))
		}
	}
}

// reopen puts bullets back on probation that are shown to all and no longer do what they did.
func (q *queue) reopen() {
	for _, id := range slices.Sorted(maps.Keys(q.tried)) {
		b := q.get(id)
		if b == nil || !b.Shown() || kept(b) || len(q.trying) >= q.gate.Slots {
			continue
		}
		if why := doubt(b); why != "" {
			q.set(id, playbook.Probation, q.gate.Share, why)
		}
	}
}

// recall lets bullets wait for another try that have retired, and that enough have asked for since.
func (q *queue) recall() {
	for _, id := range slices.Sorted(maps.Keys(q.tried)) {
		b := q.get(id)
		if b == nil || !q.mayReturn(b) {
			continue
		}
		if k := b.TheCase(); q.gate.Returns(&k) {
			q.set(id, playbook.Candidate, 0, fmt.Sprintf("%d more executions ask for it, and it has done no harm", k.Seconded))
		}
	}
}

// doubt is why a bullet that is shown to all is to be looked at again, "" if nothing speaks for that. Votes raise a
// doubt only of what chance has not judged in its present case: they also count how hard the tasks are, and one that
// passed the gate in spite of them would be looked at for ever. What a rule counts are runs and no votes.
func doubt(b *playbook.Bullet) string {
	k := b.TheCase()
	if drifted, why := gate.Drifted(&k); drifted {
		return why
	}
	if n := b.Helpful + b.Harmful; b.Rule == nil && n >= minVotes && b.Harmful >= b.Helpful && k.Withheld.N() == 0 {
		return fmt.Sprintf("%d of %d votes say that it is harmful", b.Harmful, n)
	}
	return ""
}

// stronger orders by who has asked for a bullet, then by age.
func stronger(a, b *playbook.Bullet) int {
	return cmp.Or(
		cmp.Compare(b.TheCase().Seconded, a.TheCase().Seconded),
		cmp.Compare(a.ID.Number(), b.ID.Number()), cmp.Compare(a.ID, b.ID),
	)
}

// line is those that wait, the strongest first.
func (q *queue) line() []*playbook.Bullet {
	list := make([]*playbook.Bullet, 0, len(q.waiting))
	for id := range q.waiting {
		list = append(list, q.get(id))
	}
	slices.SortFunc(list, stronger)
	return list
}

// thin retires the weakest of too many that wait.
func (q *queue) thin() {
	rivals, all := map[playbook.BulletID]int{}, 0
	for _, b := range q.line() {
		if b.Rule != nil || b.Pinned {
			continue
		}
		if b.Replaces != "" {
			if rivals[b.Replaces]++; rivals[b.Replaces] > maxRivals {
				q.set(b.ID, playbook.Retired, 0, fmt.Sprintf("%d other corrections of bullet %q were asked for more often, or before", maxRivals, b.Replaces))
				continue
			}
		}
		if all++; all > maxWaiting {
			q.set(b.ID, playbook.Retired, 0, fmt.Sprintf("%d others wait that were asked for more often, or before", maxWaiting))
		}
	}
}

// admit puts those that wait on probation, as far as there are places: the strongest first. One that more have asked for
// takes the place of the one that it would replace, while that is not proven.
func (q *queue) admit() {
	for _, b := range q.line() {
		if q.full {
			return
		}
		h := q.holder(b)
		switch {
		case q.get(b.ID).Status != playbook.Candidate: // another took its place
			continue
		case h == nil && len(q.trying) >= q.gate.Slots:
			continue
		case h != nil && (h.Shown() || h.Pinned || h.TheCase().Seconded >= b.TheCase().Seconded):
			continue
		case h != nil:
			q.set(h.ID, playbook.Retired, 0, fmt.Sprintf("seconded less often than bullet %q: %d and %d times", b.ID, h.TheCase().Seconded, b.TheCase().Seconded))
		}
		if r := q.get(b.Replaces); r != nil && r.Status == playbook.Candidate && r.Rule == nil && !r.Pinned {
			q.set(r.ID, playbook.Retired, 0, fmt.Sprintf("seconded less often than bullet %q: %d and %d times", b.ID, r.TheCase().Seconded, b.TheCase().Seconded))
		}
		q.set(b.ID, playbook.Probation, q.gate.Share, q.byChance())
	}
}

// release shows what the gate kept back, when it is turned off: all but corrections of what is shown, which go on
// waiting.
func (d *draft) release(mode playbook.Gate) {
	q := d.queue()
	reason := fmt.Sprintf("the gate is %s: nothing is kept back", mode)
	for b := range d.all() {
		if b.Rule != nil { // their counts say
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
		slices.SortFunc(list, stronger)
		for _, b := range list {
			h := q.holder(b)
			switch {
			case h == nil || b.Status == playbook.Probation && !h.Shown():
				q.set(b.ID, playbook.Active, 0, reason)
			case b.Status == playbook.Probation:
				q.set(b.ID, playbook.Candidate, 0, fmt.Sprintf("bullet %q is in its place", h.ID))
			}
		}
	}
}
