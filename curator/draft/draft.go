// Package draft turns reflections, edits and proposals into deltas of a playbook. A draft decides against one state of the
// playbook. It checks duplicates, trust in the source, the token budget and the size limits of a delta. It lets the gate
// decide on experiments, and it records each rejection with a reason code and a sentence. It uses no transport and no model,
// so it can be repeated against another state after a conflict.
package draft

import (
	"slices"
	"time"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/similar"
)

// draft turns proposals into operations against one state. Each proposal sees the effect of the earlier ones, so a batch
// has the same result as its reflections one by one.
type draft struct {
	Policy
	base       *playbook.Playbook
	changed    map[playbook.BulletID]*playbook.Bullet    // nil for a removed bullet
	lastMinted uint64                                    // last bullet number in use
	rules      map[string]playbook.BulletID              // bullets added here, by rule key
	texts      map[playbook.ContentKey]playbook.BulletID // bullets with new content here

	covers     []playbook.Cover
	ops        []playbook.Op
	sums       map[countKey]*playbook.Op // operations that count, not yet in ops
	order      []countKey                // keys of sums, in order
	rejections rejections
	bytes      int // upper bound of the encoded size of covers, ops and sums

	unlimited   bool          // an edit: it is committed completely, in several deltas if necessary
	byPerson    bool          // a person asked for the operations, not a reflection
	addedIndex  similar.Index // texts of the bullets added here
	baseIndexed bool          // alike is at the state of base

	touched map[string]bool                // keys of the rules whose counts have changed
	doubted map[string]bool                // keys of findings rejected for low confidence
	stale   map[playbook.BulletID]struct{} // rule bullets whose text and status may not match their counts

	mode            playbook.Gate                  // current gate mode
	evidenceChanged map[playbook.BulletID]struct{} // bullets with changed evidence, for the gate to check
	added           map[Contributor]int            // number of bullets added here
}

// countKey is the key of the operations that are added up into one. Different keys stay apart, so that each can be
// forgotten or corrected alone.
type countKey struct {
	bullet playbook.BulletID
	kind   playbook.OpKind
	vote   events.Vote // for Tag
	number int         // for Trial: the number of the experiment
}

// Result is a drafted change, the number of items that it decides, and the remaining work.
type Result struct {
	Deltas []*playbook.Delta // empty if there is nothing to write
	// Decided is the number of items that the change, together with the log before it, decides.
	Decided int
	// Stale contains the bullets that did not fit; the next draft refreshes their rule text and checks them with the gate.
	Stale []playbook.BulletID
	// Again reports that the gate has more changes, even if no item is left.
	Again bool
	// Added counts the bullets that the change adds, by session or source.
	Added map[Contributor]int
	// NotReady reports that the item after the decided ones needs data of this state first. Deltas is empty then.
	NotReady bool
	// Doubted contains the keys of findings that the change rejects for low confidence.
	Doubted map[string]bool
}

// draftItems drafts one delta from as many items as fit, at least one. An edit or a correction gets its own delta.
// stale is the list that the draft before returned.
func (d *draft) draftItems(covered func(*Item) bool, items []*Item, stale []playbook.BulletID) Result {
	for _, id := range stale {
		d.stale[id], d.evidenceChanged[id] = struct{}{}, struct{}{}
	}
	out := playbook.Delta{Author: history.Curator}
	seen := map[playbook.CoverKey]bool{}
	n := 0
	var edit *Item
	for _, item := range items {
		cover := item.Cover()
		key := cover.Key()
		if seen[key] || covered(item) {
			n++
			continue
		}
		if item.Reflection != nil && item.Reflection.FirstOutcome && d.HasFeedback != nil && d.HasFeedback(item.Reflection.SampleID()) {
			item.mustCorrect = true
		}
		if len(d.covers) > 0 && (item.Edit != nil || item.IsCorrection() || !d.fits(item)) {
			break
		}
		if !item.ready(d.base) {
			return Result{Decided: n, Stale: stale, NotReady: true}
		}
		seen[key] = true
		n++
		if item.Edit != nil {
			d.draftEdit(item, covered, &out)
			edit = item
			break
		}
		item.coverIndex = d.cover(item)
		d.draftReflection(item)
		if item.Model != "" {
			out.Model, out.Prompt = item.Model, item.Prompt
		}
		if item.IsCorrection() {
			break
		}
	}
	left := d.refreshRules()
	d.flush()
	left, again := d.decideGate(left)
	d.enforceBudget()
	if edit != nil && edit.Gathers() {
		d.fillDecision(&edit.Decision)
	}
	if len(d.covers) == 0 && len(d.ops) == 0 {
		return Result{Decided: n}
	}
	if _, chosen := d.base.Gate(); !chosen && !d.byPerson && d.mode != playbook.GateShadow {
		out.Gate = d.mode
	}
	out.Covers, out.Ops, out.Rejected = d.covers, d.ops, d.rejections.list()
	change := []*playbook.Delta{&out}
	if d.unlimited {
		change = split(&out)
	}
	return Result{Deltas: change, Decided: n, Stale: left, Again: again, Added: d.added, Doubted: d.doubted}
}

// Policy contains the settings and caches that decide about a proposal, besides the state of the playbook.
type Policy struct {
	Budget        Budget
	Duplicates    *DuplicateIndex             // nil detects only equal texts as duplicates
	Costs         Costs                       // cache of token counts; nil disables it
	LowConfidence FindingKeys                 // low-confidence findings that the log already contains
	HasFeedback   func(sample events.ID) bool // whether the log covers feedback on it; nil means it does not

	Mode  playbook.Gate // of a playbook without its own mode; empty means shadow
	Gate  gate.Config
	Trust Sources
	Burst Burst
	Now   time.Time // zero disables decisions that depend on time
}

// Build drafts one change of p from as many items as fit, at least one. covered reports whether the log covers an item.
// stale is the Stale of the result before. Build does not change p. It may change the decisions of the items.
func Build(p *playbook.Playbook, by Policy, covered func(*Item) bool, items []*Item, stale []playbook.BulletID) Result {
	return newDraft(p, by).draftItems(covered, items, stale)
}

// newDraft returns an empty draft on a state.
func newDraft(p *playbook.Playbook, by Policy) *draft {
	by.Gate = by.Gate.WithDefaults()
	d := &draft{
		Policy: by, base: p, lastMinted: p.LastMinted(),
		changed: map[playbook.BulletID]*playbook.Bullet{}, sums: map[countKey]*playbook.Op{},
		rules: map[string]playbook.BulletID{}, texts: map[playbook.ContentKey]playbook.BulletID{},
		touched: map[string]bool{}, doubted: map[string]bool{}, stale: map[playbook.BulletID]struct{}{},
		evidenceChanged: map[playbook.BulletID]struct{}{}, added: map[Contributor]int{},
	}
	mode, chosen := p.Gate()
	if !chosen && by.Mode != "" {
		mode = by.Mode
	}
	d.mode = mode
	return d
}

// cover adds the cover of a item and returns its index.
func (d *draft) cover(item *Item) int {
	c := item.Cover()
	d.covers = append(d.covers, c)
	d.bytes += coverBytes(&c)
	return len(d.covers) - 1
}

// draftReflection drafts the votes, outcomes, findings and proposals of one reflection.
func (d *draft) draftReflection(item *Item) {
	if item.IsCorrection() {
		d.draftCorrection(item)
		return
	}
	if d.HasFeedback != nil && d.HasFeedback(item.Reflection.SampleID()) {
		d.rejectOutdated(item)
		return
	}
	for _, r := range item.Rejected {
		d.rejections.add(r)
	}
	d.addOutcomes(item)
	voted := map[playbook.BulletID]bool{}
	for _, t := range item.Reflection.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{item.coverIndex}}
		d.vote(op, t.Tag, voted)
	}
	if n := len(item.Reflection.Findings); n > 0 && d.trustLevel(item.coverIndex) == Untrusted {
		d.reject(playbook.Op{Kind: playbook.Tag},
			screen.Refusef(playbook.ReasonUntrusted, "source %q is not trusted: %d findings of rules do not count", d.sourceOf(item.coverIndex), n))
	} else {
		for i := range item.Reflection.Findings {
			d.countFinding(&item.Reflection.Findings[i], item.coverIndex, voted)
		}
	}
	d.draftProposals(item, voted)
}

// draftProposals drafts the proposals of a reflection. voted contains the bullets that have a vote of it.
func (d *draft) draftProposals(item *Item, voted map[playbook.BulletID]bool) {
	for _, p := range item.Proposals {
		op := p.Op
		if op.Kind == playbook.Tag { // a vote belongs to one reflection
			op.Support = []int{item.coverIndex}
			d.vote(op, voteOf(&op), voted)
			continue
		}
		op.Support = d.support(item, p.From)
		if why := d.propose(op); why != nil {
			d.reject(op, why)
		}
	}
}

// support returns the indexes of the covers in this delta that support a proposal. Supporting reflections that another
// delta covers are left out.
func (d *draft) support(item *Item, from []*Item) []int {
	support := []int{item.coverIndex}
	for _, f := range from {
		c := f.Cover()
		if i := f.coverIndex; i < len(d.covers) && d.covers[i].Key() == c.Key() {
			support = append(support, i)
		}
	}
	slices.Sort(support)
	return slices.Compact(support)
}

// setVote sets the counters of an operation to one vote.
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

// voteOf returns the vote of an operation.
func voteOf(op *playbook.Op) events.Vote {
	switch {
	case op.Helpful > 0:
		return events.Helpful
	case op.Harmful > 0:
		return events.Harmful
	}
	return events.Neutral
}

// Bullet returns a bullet with the changes of the draft, or nil.
func (d *draft) Bullet(id playbook.BulletID) *playbook.Bullet {
	if b, ok := d.changed[id]; ok {
		return b
	}
	return d.base.Bullet(id)
}

// addOp adds an operation that is known to apply.
func (d *draft) addOp(op playbook.Op) {
	d.ops = append(d.ops, op)
	d.bytes += opSize(&op)
}

// vote drafts the vote of one reflection on one bullet. A bullet gets at most one vote of a sample.
func (d *draft) vote(op playbook.Op, v events.Vote, voted map[playbook.BulletID]bool) {
	setVote(&op, v)
	old, bullets := d.Bullet(op.Bullet), 1
	if d.changed[op.Bullet] != nil {
		bullets = 0
	}
	switch {
	case old == nil:
		d.reject(op, unknownBullet(op.Bullet))
		return
	case voted[op.Bullet]:
		d.reject(op, screen.Refusef(playbook.ReasonVoted, "bullet %q already has a vote of this sample", op.Bullet))
		return
	case !d.hasRoom(&op, bullets):
		d.reject(op, errFull)
		return
	}
	if why := d.refuseSource(old, op.Support[0]); why != nil && (old.Rule == nil || d.trustLevel(op.Support[0]) == Untrusted) {
		d.reject(op, why)
		return
	}
	voted[op.Bullet] = true
	d.markStale(old)
	if v == events.Harmful {
		d.evidenceChanged[op.Bullet] = struct{}{}
	}
	d.changed[op.Bullet] = old.Apply(&op, d.covers)
	d.sum(countKey{bullet: op.Bullet, kind: playbook.Tag, vote: v}, op)
}

// sum adds the counters of an operation to the operation with the same key.
func (d *draft) sum(key countKey, op playbook.Op) {
	if total := d.sums[key]; total != nil {
		total.Helpful += op.Helpful
		total.Harmful += op.Harmful
		total.Neutral += op.Neutral
		total.Support = append(total.Support, op.Support...)
		total.Exposures = append(total.Exposures, op.Exposures...)
		d.bytes += supportSize*len(op.Support) + seenSize*len(op.Exposures)
		return
	}
	d.sums[key] = &op
	d.order = append(d.order, key)
	d.bytes += opSize(&op)
}

// flush moves the sums to the operations. Call it before an operation that must come after the counts so far.
func (d *draft) flush() {
	for _, key := range d.order {
		d.ops = append(d.ops, *d.sums[key])
	}
	d.sums, d.order = map[countKey]*playbook.Op{}, nil
}

var errFull = screen.Refusef(playbook.ReasonDeltaFull, "the delta is full")

// unknownBullet returns the refusal for a bullet id that does not exist.
func unknownBullet(id playbook.BulletID) *screen.Refusal {
	return screen.Refusef(playbook.ReasonUnknownBullet, "bullet %q is not in the playbook", screen.Truncate(string(id), screen.MaxName))
}

// reject records a rejected operation.
func (d *draft) reject(op playbook.Op, why *screen.Refusal) {
	d.rejections.add(why.Rejection(op))
}
