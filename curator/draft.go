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
	rules   map[string]playbook.BulletID // added here, by rule key
	texts   map[string]playbook.BulletID // added here, by content

	covers   []playbook.Cover
	ops      []playbook.Op
	tags     map[playbook.BulletID]*playbook.Op // votes so far, one operation a bullet
	order    []playbook.BulletID                // of tags
	rejected []playbook.Rejection
	bytes    int // estimate of the encoded size
	touched  map[string]struct{}
}

// Bounds on one delta, under those of the log: what goes past them waits for the next delta.
const (
	roomKeys  = playbook.MaxDeltaKeys - 100
	roomBytes = playbook.MaxDeltaBytes * 3 / 4
	// fullBytes is where even what belongs to the first case is turned down.
	fullBytes = playbook.MaxDeltaBytes * 7 / 8
	// maxRejections is how many turned-down proposals a delta records in full; of the rest it says how many.
	maxRejections = 200
)

// draftDelta makes the delta of as many cases as fit in one, and says how many it settles: at least one. An edit has a
// delta of its own. The delta is nil when the log covers all of them already.
func draftDelta(s natskv.State, cases []*docket) (*playbook.Delta, int) {
	d := &draft{
		base: s.Playbook(), minted: s.Playbook().LastMinted(),
		changed: map[playbook.BulletID]*playbook.Bullet{}, tags: map[playbook.BulletID]*playbook.Op{},
		rules: map[string]playbook.BulletID{}, texts: map[string]playbook.BulletID{}, touched: map[string]struct{}{},
	}
	author, reason := Author, ""
	seen := map[events.ID]bool{}
	n := 0
	for _, k := range cases {
		if seen[k.id] || k.covered(s) {
			n++
			continue
		}
		if len(d.covers) > 0 && (k.e != nil || !d.fits(k)) {
			break
		}
		seen[k.id] = true
		d.covers = append(d.covers, playbook.Cover{ID: string(k.id), Seq: k.seq})
		n++
		if k.e != nil {
			author, reason = k.e.Author, k.e.Reason
			d.edit(k, len(d.covers)-1)
			break
		}
		d.reflection(k, len(d.covers)-1)
	}
	if len(d.covers) == 0 {
		return nil, n
	}
	d.refreshRules()
	d.flushTags()
	return &playbook.Delta{Covers: d.covers, Ops: d.ops, Rejected: d.rejections(), Author: author, Reason: reason}, n
}

// fits estimates whether a reflection's changes still have room.
func (d *draft) fits(k *docket) bool {
	keys := len(d.changed) + len(k.r.Tags) + 2*len(k.r.Findings) + len(k.proposals)
	bytes := d.bytes + 64*(len(k.r.Tags)+len(k.r.Findings))
	for _, p := range k.proposals {
		bytes += 2*len(p.Op.Content) + 128
	}
	return keys < roomKeys && bytes < roomBytes
}

// reflection drafts what one reflection asks for: its votes, what rules found, and the proposals made of its lessons.
func (d *draft) reflection(k *docket, cover int) {
	d.rejected = append(d.rejected, k.rejected...)
	voted := map[playbook.BulletID]bool{}
	for _, t := range k.r.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{cover}}
		setVote(&op, t.Tag)
		d.vote(op, voted)
	}
	for i := range k.r.Findings {
		d.finding(&k.r.Findings[i], cover, voted)
	}
	for _, p := range k.proposals {
		op := p.Op
		op.Support = []int{cover}
		if op.Kind == playbook.Tag {
			d.vote(op, voted)
		} else if reason := d.change(&op); reason != "" {
			d.reject(op, reason)
		}
	}
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

// edit drafts a person's change. What cannot be done is told to the person, too.
func (d *draft) edit(k *docket, cover int) {
	k.refused = nil
	for _, op := range k.e.Ops {
		op.Support = []int{cover}
		reason := d.change(&op)
		if reason != "" {
			d.reject(op, reason)
			k.refused = append(k.refused, reason)
		}
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
	d.bytes += 96 + len(op.Content) + len(op.Section) + 24*len(op.Sources)
	if op.Rule != nil {
		d.bytes += len(op.Rule.Key) + len(op.Rule.Base) + len(op.Rule.Text)
	}
}

func (d *draft) reject(op playbook.Op, reason string) {
	op.Support = nil
	d.bytes += 64 + len(reason) + min(len(op.Content), 500)
	d.rejected = append(d.rejected, playbook.Rejection{Op: op, Reason: reason})
}

// rejections are the rejections as a delta keeps them: long content cut, and not more than maxRejections.
func (d *draft) rejections() []playbook.Rejection {
	for i := range d.rejected {
		if op := &d.rejected[i].Op; len(op.Content) > 500 {
			op.Content = clip(op.Content, 500)
		}
	}
	if n := len(d.rejected) - maxRejections; n > 0 {
		more := playbook.Rejection{Reason: fmt.Sprintf("%d more proposals were rejected", n)}
		return append(d.rejected[:maxRejections:maxRejections], more)
	}
	return d.rejected
}

// vote drafts one reflection's vote on one bullet. A bullet gets one vote of a sample.
func (d *draft) vote(op playbook.Op, voted map[playbook.BulletID]bool) {
	old := d.get(op.Bullet)
	switch {
	case old == nil:
		d.reject(op, fmt.Sprintf("bullet %q is not in the playbook", op.Bullet))
		return
	case voted[op.Bullet]:
		d.reject(op, fmt.Sprintf("bullet %q already has this sample's vote", op.Bullet))
		return
	}
	voted[op.Bullet] = true
	b := *old
	b.Helpful += op.Helpful
	b.Harmful += op.Harmful
	b.Neutral += op.Neutral
	d.changed[b.ID] = &b
	if sum := d.tags[b.ID]; sum != nil {
		sum.Helpful += op.Helpful
		sum.Harmful += op.Harmful
		sum.Neutral += op.Neutral
		sum.Support = append(sum.Support, op.Support...)
		d.bytes += 2
		return
	}
	d.tags[b.ID] = &op
	d.order = append(d.order, b.ID)
	d.bytes += 48
}

// flushTags turns the votes so far into operations.
func (d *draft) flushTags() {
	for _, id := range d.order {
		d.ops = append(d.ops, *d.tags[id])
	}
	d.tags, d.order = map[playbook.BulletID]*playbook.Op{}, nil
}

// change drafts any operation but a vote, and fills in the id of a new bullet. It returns the reason why not, or "".
func (d *draft) change(op *playbook.Op) string {
	if d.bytes+2*len(op.Content) > fullBytes {
		return "too much for one change: the delta is full"
	}
	if op.Kind == playbook.Add {
		return d.add(op)
	}
	old := d.get(op.Bullet)
	if old == nil {
		return fmt.Sprintf("bullet %q is not in the playbook", op.Bullet)
	}
	b := *old
	switch op.Kind {
	case playbook.Update:
		if same := d.same(op.Content); same == op.Bullet {
			return fmt.Sprintf("bullet %q says that already", op.Bullet)
		} else if same != "" {
			return fmt.Sprintf("bullet %q says that already, %q cannot say it too", same, op.Bullet)
		}
		b.Content, b.Rule = op.Content, op.Rule
		if op.Section != "" {
			b.Section = op.Section
		}
		d.texts[op.Content] = b.ID
	case playbook.SetStatus:
		b.Status = op.Status
	case playbook.Pin:
		b.Pinned = op.Pinned
	case playbook.Remove:
		if b.Pinned {
			return fmt.Sprintf("bullet %q is pinned", op.Bullet)
		}
		d.flushTags() // votes come before the end of what they are on
		d.changed[b.ID] = nil
		d.emit(*op)
		return ""
	case playbook.Merge:
		return d.merge(op, b)
	default:
		return fmt.Sprintf("type: %q is no operation of a proposal", op.Kind)
	}
	d.changed[b.ID] = &b
	d.emit(*op)
	return ""
}

func (d *draft) merge(op *playbook.Op, b playbook.Bullet) string {
	op.Sources = slices.DeleteFunc(slices.Clone(op.Sources), func(id playbook.BulletID) bool { return id == op.Bullet })
	if len(op.Sources) == 0 {
		return "source_ids: names no other bullet"
	}
	for _, id := range op.Sources {
		switch src := d.get(id); {
		case src == nil:
			return fmt.Sprintf("bullet %q is not in the playbook", id)
		case src.Pinned:
			return fmt.Sprintf("bullet %q is pinned", id)
		default:
			b.Helpful += src.Helpful
			b.Harmful += src.Harmful
			b.Neutral += src.Neutral
		}
	}
	d.flushTags()
	for _, id := range op.Sources {
		d.changed[id] = nil
	}
	b.Content = op.Content
	d.changed[b.ID] = &b
	d.emit(*op)
	return ""
}

// add drafts a new bullet, unless one says the same already.
func (d *draft) add(op *playbook.Op) string {
	if op.Bullet != "" {
		return fmt.Sprintf("bullet_id: %q, new bullets get their id from the playbook", op.Bullet)
	}
	if same := d.same(op.Content); same != "" {
		return fmt.Sprintf("bullet %q says that already", same)
	}
	d.minted++
	op.Section = playbook.Section(op.Section)
	op.Bullet = playbook.MintID(op.Section, d.minted)
	d.changed[op.Bullet] = &playbook.Bullet{ID: op.Bullet, Section: op.Section, Content: op.Content, Rule: op.Rule, Status: op.Status}
	d.texts[op.Content] = op.Bullet
	d.emit(*op)
	return ""
}

// same is the id of a bullet with this content, "" if there is none.
func (d *draft) same(content string) playbook.BulletID {
	if b := d.base.Same(content); b != nil {
		if now := d.get(b.ID); now != nil && now.Content == b.Content {
			return b.ID
		}
	}
	if id := d.texts[content]; id != "" && d.get(id) != nil && d.get(id).Content == content {
		return id
	}
	return ""
}
