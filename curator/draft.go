package curator

import (
	"fmt"
	"slices"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// draft turns proposals into operations against one state. Later proposals see what earlier ones did, so a batch comes
// out as its reflections would have one by one.
type draft struct {
	base    *playbook.Playbook
	changed map[playbook.BulletID]*playbook.Bullet // nil for one that is gone
	minted  uint64
	rules   map[string]playbook.BulletID           // added here, by rule key
	texts   map[playbook.Wording]playbook.BulletID // said here

	covers []playbook.Cover
	ops    []playbook.Op
	tags   map[playbook.BulletID]*playbook.Op // votes so far, one operation a bullet
	order  []playbook.BulletID                // of tags
	record rejections
	bytes  int // at least the encoded size of covers, operations and votes

	touched map[string]bool                // rule keys counted here
	stale   map[playbook.BulletID]struct{} // rule bullets to bring in line with their counts
}

// drafted is a delta, which cases it settles, and what is left to do after it.
type drafted struct {
	delta *playbook.Delta // nil when there is nothing to write
	// settled is how many cases the delta, together with the log before it, settles.
	settled int
	// stale are rule bullets whose text and status another delta brings in line with their counts: here they had no
	// room.
	stale []playbook.BulletID
}

// settle drafts as many cases as fit in one delta: at least one, if there are any. An edit has a delta of its own. Stale
// is what the delta before this one left.
func (d *draft) settle(covered func(*docket) bool, cases []*docket, stale []playbook.BulletID) drafted {
	for _, id := range stale {
		d.stale[id] = struct{}{}
	}
	author, reason := Author, ""
	seen := map[events.ID]bool{}
	n := 0
	for _, k := range cases {
		if seen[k.id] || covered(k) {
			n++
			continue
		}
		if len(d.covers) > 0 && (k.e != nil || !d.fits(k)) {
			break
		}
		seen[k.id] = true
		k.cover = d.cover(k)
		n++
		if k.e != nil {
			author, reason = clip(k.e.Author, maxAuthor), clip(k.e.Reason, maxReason)
			d.edit(k)
			break
		}
		d.reflection(k)
	}
	left := d.refreshRules()
	d.flushTags()
	if len(d.covers) == 0 && len(d.ops) == 0 {
		return drafted{settled: n}
	}
	return drafted{
		delta:   &playbook.Delta{Covers: d.covers, Ops: d.ops, Rejected: d.record.list(), Author: author, Reason: reason},
		settled: n, stale: left,
	}
}

func newDraft(p *playbook.Playbook) *draft {
	return &draft{
		base: p, minted: p.LastMinted(),
		changed: map[playbook.BulletID]*playbook.Bullet{}, tags: map[playbook.BulletID]*playbook.Op{},
		rules: map[string]playbook.BulletID{}, texts: map[playbook.Wording]playbook.BulletID{},
		touched: map[string]bool{}, stale: map[playbook.BulletID]struct{}{},
	}
}

// coveredBy says of dockets whether the log has their effect.
func coveredBy(s natskv.State) func(*docket) bool {
	return func(k *docket) bool { return k.covered(s) }
}

func (d *draft) cover(k *docket) int {
	d.covers = append(d.covers, playbook.Cover{ID: string(k.id), Seq: k.seq})
	d.bytes += coverSize + len(k.id)
	return len(d.covers) - 1
}

// reflection drafts what one reflection asks for: its votes, what rules found, and the proposals made of its lessons.
func (d *draft) reflection(k *docket) {
	for _, r := range k.rejected {
		d.record.add(r)
	}
	voted := map[playbook.BulletID]bool{}
	for _, t := range k.r.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{k.cover}}
		setVote(&op, t.Tag)
		d.vote(op, voted)
	}
	for i := range k.r.Findings {
		d.finding(&k.r.Findings[i], k.cover, voted)
	}
	for _, p := range k.proposals {
		op := p.op
		if op.Kind == playbook.Tag { // one vote, so one reflection's
			op.Support = []int{k.cover}
			d.vote(op, voted)
			continue
		}
		op.Support = d.support(k, p.from)
		if reason := d.change(&op); reason != "" {
			d.reject(op, reason)
		}
	}
}

// support is what a proposal of a docket rests on, of the reflections that this delta covers. Others that it was made
// from are in an earlier delta, or were covered before.
func (d *draft) support(k *docket, from []*docket) []int {
	rests := []int{k.cover}
	for _, f := range from {
		if i := f.cover; i < len(d.covers) && d.covers[i].ID == string(f.id) {
			rests = append(rests, i)
		}
	}
	slices.Sort(rests)
	return slices.Compact(rests)
}

func setVote(op *playbook.Op, v events.Vote) {
	switch v {
	case events.Helpful:
		op.Helpful = 1
	case events.Harmful:
		op.Harmful = 1
	default:
		op.Neutral = 1
	}
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
func (d *draft) vote(op playbook.Op, voted map[playbook.BulletID]bool) {
	old, bullets := d.get(op.Bullet), 1
	if d.changed[op.Bullet] != nil {
		bullets = 0
	}
	switch {
	case old == nil:
		d.reject(op, unknown(op.Bullet))
		return
	case voted[op.Bullet]:
		d.reject(op, fmt.Sprintf("bullet %q already has this sample's vote", op.Bullet))
		return
	case !d.room(&op, bullets):
		d.reject(op, errFull)
		return
	}
	voted[op.Bullet] = true
	b := *old
	b.Helpful += op.Helpful
	b.Harmful += op.Harmful
	b.Neutral += op.Neutral
	d.changed[b.ID] = &b
	d.touch(&b)
	if sum := d.tags[b.ID]; sum != nil {
		sum.Helpful += op.Helpful
		sum.Harmful += op.Harmful
		sum.Neutral += op.Neutral
		sum.Support = append(sum.Support, op.Support...)
		d.bytes += supportSize * len(op.Support)
		return
	}
	d.tags[b.ID] = &op
	d.order = append(d.order, b.ID)
	d.bytes += opSize(&op)
}

// flushTags turns the votes so far into operations.
func (d *draft) flushTags() {
	for _, id := range d.order {
		d.ops = append(d.ops, *d.tags[id])
	}
	d.tags, d.order = map[playbook.BulletID]*playbook.Op{}, nil
}

func unknown(id playbook.BulletID) string {
	return fmt.Sprintf("bullet %q is not in the playbook", clip(string(id), maxName))
}

func (d *draft) reject(op playbook.Op, reason string) {
	d.record.add(playbook.Rejection{Op: op, Reason: reason})
}
