package curator

import (
	"fmt"
	"slices"
	"time"

	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// draft turns proposals into operations against one state. Later proposals see what earlier ones did, so a batch comes
// out as its reflections would have one by one.
type draft struct {
	policy
	base    *playbook.Playbook
	changed map[playbook.BulletID]*playbook.Bullet // nil for one that is gone
	minted  uint64
	rules   map[string]playbook.BulletID           // added here, by rule key
	texts   map[playbook.Wording]playbook.BulletID // said here

	covers []playbook.Cover
	ops    []playbook.Op
	sums   map[tally]*playbook.Op // what is counted so far, one operation a bullet and kind of count
	order  []tally                // of sums
	record rejections
	bytes  int // at least the encoded size of covers, operations and sums

	whole    bool          // it may take several deltas
	person   bool          // it is what a person asks for, and not what reflections say
	news     similar.Index // what is added here
	followed bool          // alike has seen the base

	touched map[string]bool                // rule keys counted here
	doubted map[string]bool                // keys of findings that were turned down here
	stale   map[playbook.BulletID]struct{} // rule bullets to bring in line with their counts

	mode  playbook.Gate                  // of the book from here on
	tried map[playbook.BulletID]struct{} // bullets whose evidence has moved: for the gate to look at
	born  map[maker]int                  // bullets made here
}

// tally is what the counts of one operation are for. They are kept apart so that each can be told from the others, when
// one of them is to be forgotten or corrected.
type tally struct {
	bullet playbook.BulletID
	kind   playbook.OpKind
	vote   events.Vote // Tag
	number int         // Trial: of the case
}

// drafted is a change, which cases it settles, and what is left to do after it.
type drafted struct {
	change []*playbook.Delta // none when there is nothing to write
	// settled is how many cases the delta, together with the log before it, settles.
	settled int
	// stale are bullets that another delta looks at, rules for their counts and all for the gate: here was no room.
	stale []playbook.BulletID
	// again says that the gate has more to decide, also when nothing else waits.
	again bool
	// born counts the bullets that the change makes, for whoever commits it to remember.
	born map[maker]int
	// unready needs to be prepared for this state first; nothing is drafted then.
	unready *docket
	// doubted are the keys of findings that it turns down as too unsure.
	doubted map[string]bool
}

// settle drafts as many cases as fit in one delta: at least one, if there are any. An edit has a delta of its own, and so
// has a reflection on feedback. Stale
// is what the delta before this one left.
func (d *draft) settle(covered func(*docket) bool, cases []*docket, stale []playbook.BulletID) drafted {
	for _, id := range stale {
		d.stale[id], d.tried[id] = struct{}{}, struct{}{}
	}
	out := playbook.Delta{Author: Author}
	seen := map[playbook.CoverKey]bool{}
	n := 0
	var edit *docket
	for _, k := range cases {
		cover := k.covers()
		key := cover.Key()
		if seen[key] || covered(k) {
			n++
			continue
		}
		if k.r != nil && k.r.First && d.judged != nil && d.judged(k.r.SampleID()) {
			k.back = true
		}
		if len(d.covers) > 0 && (k.e != nil || k.looksBack() || !d.fits(k)) {
			break
		}
		if !k.ready(d.base) {
			return drafted{settled: n, stale: stale, unready: k}
		}
		seen[key] = true
		n++
		if k.e != nil {
			d.edited(k, covered, &out)
			edit = k
			break
		}
		k.cover = d.cover(k)
		d.reflection(k)
		if k.model != "" {
			out.Model, out.Prompt = k.model, PromptVersion
		}
		if k.looksBack() {
			break
		}
	}
	left := d.refreshRules()
	d.flush()
	left, again := d.decide(left)
	d.economise()
	if edit != nil && edit.gathers() {
		d.tell(&edit.decision)
	}
	if len(d.covers) == 0 && len(d.ops) == 0 {
		return drafted{settled: n}
	}
	if _, chosen := d.base.Gate(); !chosen && !d.person && d.mode != playbook.GateShadow {
		out.Gate = d.mode
	}
	out.Covers, out.Ops, out.Rejected = d.covers, d.ops, d.record.list()
	change := []*playbook.Delta{&out}
	if d.whole {
		change = split(&out)
	}
	return drafted{change: change, settled: n, stale: left, again: again, born: d.born, doubted: d.doubted}
}

// policy is what decides, beside the state, what becomes of a proposal.
type policy struct {
	budget budget
	alike  *alike                      // nil: only the same words are the same
	costs  costs                       // of the book's bullets; nil remembers none
	doubts doubts                      // that are on record
	judged func(sample events.ID) bool // whether feedback on it is covered; nil knows of none

	mode  playbook.Gate // of a book that nobody has chosen one for; empty is shadow
	gate  gate.Config
	trust trust
	burst burst
	now   time.Time // zero where time does not matter
}

func newDraft(p *playbook.Playbook, by policy) *draft {
	by.gate = by.gate.WithDefaults()
	d := &draft{
		policy: by, base: p, minted: p.LastMinted(),
		changed: map[playbook.BulletID]*playbook.Bullet{}, sums: map[tally]*playbook.Op{},
		rules: map[string]playbook.BulletID{}, texts: map[playbook.Wording]playbook.BulletID{},
		touched: map[string]bool{}, doubted: map[string]bool{}, stale: map[playbook.BulletID]struct{}{},
		tried: map[playbook.BulletID]struct{}{}, born: map[maker]int{},
	}
	mode, chosen := p.Gate()
	if !chosen && by.mode != "" {
		mode = by.mode
	}
	d.mode = mode
	return d
}

func (d *draft) cover(k *docket) int {
	c := k.covers()
	d.covers = append(d.covers, c)
	d.bytes += coverBytes(&c)
	return len(d.covers) - 1
}

// reflection drafts what one reflection asks for: its votes, what rules found, and the proposals made of its lessons.
func (d *draft) reflection(k *docket) {
	if k.looksBack() {
		d.correction(k)
		return
	}
	if d.judged != nil && d.judged(k.r.SampleID()) {
		d.outdated(k)
		return
	}
	for _, r := range k.rejected {
		d.record.add(r)
	}
	d.outcomes(k)
	voted := map[playbook.BulletID]bool{}
	for _, t := range k.r.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{k.cover}}
		d.vote(op, t.Tag, voted)
	}
	if n := len(k.r.Findings); n > 0 && d.level(k.cover) == Untrusted {
		d.reject(playbook.Op{Kind: playbook.Tag}, no("source %q is not trusted: %d sightings of rules do not count", d.source(k.cover), n))
	} else {
		for i := range k.r.Findings {
			d.finding(&k.r.Findings[i], k.cover, voted)
		}
	}
	d.proposed(k, voted)
}

// proposed drafts what was proposed of a reflection's lessons.
func (d *draft) proposed(k *docket, voted map[playbook.BulletID]bool) {
	for _, p := range k.proposals {
		op := p.op
		if op.Kind == playbook.Tag { // one vote, so one reflection's
			op.Support = []int{k.cover}
			d.vote(op, voteOf(&op), voted)
			continue
		}
		op.Support = d.support(k, p.from)
		if no := d.propose(op); no != nil {
			d.reject(op, no)
		}
	}
}

// support is what a proposal of a docket rests on, of the reflections that this delta covers. Others that it was made
// from are in an earlier delta, or were covered before.
func (d *draft) support(k *docket, from []*docket) []int {
	rests := []int{k.cover}
	for _, f := range from {
		c := f.covers()
		if i := f.cover; i < len(d.covers) && d.covers[i].Key() == c.Key() {
			rests = append(rests, i)
		}
	}
	slices.Sort(rests)
	return slices.Compact(rests)
}

func setVote(op *playbook.Op, v events.Vote) {
	op.Helpful, op.Harmful, op.Neutral = 0, 0, 0
	switch v {
	case events.Helpful:
		op.Helpful = 1
	case events.Harmful:
		op.Harmful = 1
	default:
		op.Neutral = 1
	}
}

func voteOf(op *playbook.Op) events.Vote {
	switch {
	case op.Helpful > 0:
		return events.Helpful
	case op.Harmful > 0:
		return events.Harmful
	}
	return events.Neutral
}

// get is a bullet as the draft has it.
func (d *draft) get(id playbook.BulletID) *playbook.Bullet {
	if b, ok := d.changed[id]; ok {
		return b
	}
	return d.base.Bullet(id)
}

// emit adds an operation that is sure to apply.
func (d *draft) emit(op playbook.Op) {
	d.ops = append(d.ops, op)
	d.bytes += opSize(&op)
}

// vote drafts one reflection's vote on one bullet. A bullet gets one vote of a sample.
func (d *draft) vote(op playbook.Op, v events.Vote, voted map[playbook.BulletID]bool) {
	setVote(&op, v)
	old, bullets := d.get(op.Bullet), 1
	if d.changed[op.Bullet] != nil {
		bullets = 0
	}
	switch {
	case old == nil:
		d.reject(op, unknown(op.Bullet))
		return
	case voted[op.Bullet]:
		d.reject(op, no("bullet %q already has this sample's vote", op.Bullet))
		return
	case !d.room(&op, bullets):
		d.reject(op, errFull)
		return
	}
	if why := d.mistrusts(old, op.Support[0]); why != nil && (old.Rule == nil || d.level(op.Support[0]) == Untrusted) {
		d.reject(op, why)
		return
	}
	voted[op.Bullet] = true
	d.touch(old)
	if v == events.Harmful {
		d.tried[op.Bullet] = struct{}{}
	}
	d.changed[op.Bullet] = old.After(&op, d.covers)
	d.sum(tally{bullet: op.Bullet, kind: playbook.Tag, vote: v}, op)
}

// sum adds an operation that counts to the others of its kind.
func (d *draft) sum(key tally, op playbook.Op) {
	if sum := d.sums[key]; sum != nil {
		sum.Helpful += op.Helpful
		sum.Harmful += op.Harmful
		sum.Neutral += op.Neutral
		sum.Support = append(sum.Support, op.Support...)
		sum.Seen = append(sum.Seen, op.Seen...)
		d.bytes += supportSize*len(op.Support) + seenSize*len(op.Seen)
		return
	}
	d.sums[key] = &op
	d.order = append(d.order, key)
	d.bytes += opSize(&op)
}

// flush turns what was counted so far into operations.
func (d *draft) flush() {
	for _, key := range d.order {
		d.ops = append(d.ops, *d.sums[key])
	}
	d.sums, d.order = map[tally]*playbook.Op{}, nil
}

// refusal is why something that was asked for is not done.
type refusal struct {
	reason string
	same   playbook.BulletID // that says it already
}

func no(format string, args ...any) *refusal { return &refusal{reason: fmt.Sprintf(format, args...)} }

var errFull = no("too much for one change: the delta is full")

func unknown(id playbook.BulletID) *refusal {
	return no("bullet %q is not in the playbook", clip(string(id), maxName))
}

func (d *draft) reject(op playbook.Op, why *refusal) {
	d.record.add(playbook.Rejection{Op: op, Reason: why.reason, Same: why.same})
}
