package draft

import (
	"iter"
	"slices"

	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// draft is a change that is being built against one state of a playbook: the operations so far, their effect and the rejections. Each
// proposal sees the effect of the earlier ones, so a batch has the same result as its reflections one by one.
type draft struct {
	Config
	base       *playbook.Playbook
	recorded   playbook.Admission                        // of base
	changed    map[playbook.BulletID]*playbook.Bullet    // nil for a removed bullet
	lastMinted uint64                                    // last bullet number in use
	contents   map[playbook.ContentKey]playbook.BulletID // bullets to which this draft gave a new text
	added      map[Contributor]int                       // number of bullets that this draft added

	covers     []playbook.Cover
	ops        []playbook.Op
	sums       map[countKey]*playbook.Op // votes, outcomes and confirmations that flushCounts will add to ops
	order      []countKey                // keys of sums, in order
	rejections rejections
	bytes      int // upper bound of the encoded size of covers, ops and sums

	mode       playbook.Gate         // current gate mode
	review     bool                  // new texts wait for a person
	edit       *Item                 // nil for a change by reflections; the change of an edit has no size limit, because it gets several deltas
	byPerson   bool                  // a person asked for the operations, not a reflection
	correction *history.Contribution // of the sample of a correction, else nil

	evidenceChanged map[playbook.BulletID]struct{} // bullets with changed evidence, for the gate to check

	addedTexts  similar.Index // texts of the bullets that this draft added
	baseIndexed bool          // Config.Duplicates has the texts of base
}

// countKey is the key of the operations that are added up into one. Operations with different keys stay separate, so that each
// can be forgotten or corrected alone.
type countKey struct {
	bullet playbook.BulletID
	kind   playbook.OpKind
	vote   events.Vote // for Tag
	number int         // for AddExposures: the number of the experiment
}

// newDraft returns an empty draft against the state p.
func newDraft(p *playbook.Playbook, cfg Config) *draft {
	cfg.Gate = cfg.Gate.WithDefaults()
	mode, chosen := p.Gate()
	if !chosen && cfg.GateMode != "" {
		mode = cfg.GateMode
	}
	recorded := p.Admission()
	configured := recorded // with the settings of this Curator, which the log may not have yet
	configured.Policy = cfg.Policy
	return &draft{
		Config: cfg, base: p, recorded: recorded, lastMinted: p.LastMinted(), mode: mode,
		review: recorded.ReviewsFirst() || configured.ReviewsFirst(), added: map[Contributor]int{},
		changed: map[playbook.BulletID]*playbook.Bullet{}, sums: map[countKey]*playbook.Op{},
		contents: map[playbook.ContentKey]playbook.BulletID{}, evidenceChanged: map[playbook.BulletID]struct{}{},
	}
}

// Bullet returns a bullet with the changes of the draft, or nil.
func (d *draft) Bullet(id playbook.BulletID) *playbook.Bullet {
	if b, ok := d.changed[id]; ok {
		return b
	}
	return d.base.Bullet(id)
}

// All yields every bullet as the draft has it, in undefined order.
func (d *draft) All() iter.Seq[*playbook.Bullet] {
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

// findByContent returns the id of a bullet with this content, ignoring white space and case. It returns "" if no bullet has it.
func (d *draft) findByContent(content string) playbook.BulletID {
	key := playbook.ContentKeyOf(content)
	stillHas := func(id playbook.BulletID) bool {
		b := d.Bullet(id)
		return b != nil && playbook.ContentKeyOf(b.Content) == key
	}
	if b := d.base.FindByContent(content); b != nil && stillHas(b.ID) {
		return b.ID
	}
	if id := d.contents[key]; id != "" && stillHas(id) {
		return id
	}
	return ""
}

// cover adds the cover of an item and returns its index.
func (d *draft) cover(item *Item) int {
	c := item.Cover()
	d.covers = append(d.covers, c)
	d.bytes += sizeOf(&c)
	return len(d.covers) - 1
}

// support returns the indexes of the covers in this delta that support a proposal of an item. Supporting reflections that another
// delta covers are left out.
func (d *draft) support(item *Item, p *Proposal) []int {
	if p.Op.Kind == playbook.Merge && len(p.From) == 0 {
		return nil
	}
	support := []int{item.coverIndex}
	for _, f := range p.From {
		c := f.Cover() // coverIndex may be that in an earlier delta or draft, so compare the keys
		if i := f.coverIndex; i < len(d.covers) && d.covers[i].Key() == c.Key() {
			support = append(support, i)
		}
	}
	slices.Sort(support)
	return slices.Compact(support)
}

// hasRoom reports whether the delta has room for an operation that changes this number of bullets besides those already changed. An edit
// always has room.
func (d *draft) hasRoom(op *playbook.Op, bullets int) bool {
	return d.edit != nil || d.bytes+sizeOf(op)+addedOpBytes <= hardBytes && len(d.changed)+bullets <= hardBullets
}

// hasRoomForBullet reports whether the delta has room for an operation on op.Bullet alone.
func (d *draft) hasRoomForBullet(op *playbook.Op) bool {
	if d.changed[op.Bullet] != nil {
		return d.hasRoom(op, 0)
	}
	return d.hasRoom(op, 1)
}

// addOp adds an operation. The caller has checked it, and has recorded its effect in changed.
func (d *draft) addOp(op playbook.Op) {
	d.ops = append(d.ops, op)
	d.bytes += sizeOf(&op)
}

// sum drafts an operation that is added up with the earlier operations of the same key, see countKey. The caller has recorded its effect in
// changed.
func (d *draft) sum(key countKey, op playbook.Op) {
	if total := d.sums[key]; total != nil {
		total.Helpful += op.Helpful
		total.Harmful += op.Harmful
		total.Neutral += op.Neutral
		total.Support = append(total.Support, op.Support...)
		total.Exposures = append(total.Exposures, op.Exposures...)
		d.bytes += supportBytes*len(op.Support) + exposureBytes*len(op.Exposures)
		return
	}
	d.sums[key] = &op
	d.order = append(d.order, key)
	d.bytes += sizeOf(&op)
}

// flushCounts moves the sums to the operations. Call it before an operation that must come after the votes and outcomes so far.
func (d *draft) flushCounts() {
	for _, key := range d.order {
		d.ops = append(d.ops, *d.sums[key])
	}
	d.sums, d.order = map[countKey]*playbook.Op{}, nil
}

// changeBullet drafts an operation on an existing bullet.
func (d *draft) changeBullet(op playbook.Op) {
	retires := op.Kind == playbook.SetStatus && op.Status == playbook.Retired
	if retires || op.Restart || op.Kind == playbook.Update {
		d.flushCounts() // the votes and outcomes so far belong to the state before
	}
	d.changed[op.Bullet] = d.Bullet(op.Bullet).Apply(&op, d.covers)
	d.addOp(op)
}

// putBullet drafts a PUT or the removal of a bullet. It overwrites an existing bullet.
func (d *draft) putBullet(op playbook.Op) {
	b := op.PutBullet
	d.changed[op.Bullet] = b
	if b != nil {
		d.lastMinted = max(d.lastMinted, b.ID.Number())
		d.contents[playbook.ContentKeyOf(b.Content)] = b.ID
	}
	d.addOp(op)
}

// reject records a rejected operation.
func (d *draft) reject(op playbook.Op, refusal *screen.Refusal) {
	d.rejections.add(refusal.Rejection(op))
}

// newStanding returns the standing of a new text.
func (d *draft) newStanding() playbook.Standing {
	if d.byPerson || d.mode == playbook.GateOff {
		return ""
	}
	return playbook.StandingNew
}

var errFull = screen.Refusef(playbook.ReasonDeltaFull, "the delta is full")

// unknownBullet returns the refusal for a bullet id that does not exist.
func unknownBullet(id playbook.BulletID) *screen.Refusal {
	return screen.Refusef(playbook.ReasonUnknownBullet, "bullet %q is not in the playbook", text.Excerpt(string(id), screen.MaxName))
}
