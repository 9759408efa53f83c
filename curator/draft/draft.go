// Package draft turns reflections, edits and proposals into deltas of a playbook. A draft decides against one state of the
// playbook. It checks duplicates, trust in the source, the token budget and the size limits of a delta. It lets the gate
// decide on experiments, and it records each rejection with a reason code and a sentence. It uses no transport and no model,
// so it can be repeated against another state after a conflict.
//
//	draft.go      Build, and the draft of one reflection
//	state.go      the state that a draft builds, and its operations
//	admit.go      which proposals become operations, and with which status
//	change.go     operations on the content and the existence of bullets
//	evidence.go   votes and outcomes, and their corrections
//	trust.go      trust in sources; burst.go limits the bullets of one contributor
//	gate.go       the decisions of package gate
//	budget.go     the token budget
//	edit.go       edits; gather.go the reflections that an edit gathers
//	limits.go     the size of a delta
//	refine.go     plans that clean up a playbook
package draft

import (
	"crypto/rand"
	"slices"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Config contains the settings, the index and the look-ups of a draft.
type Config struct {
	MaxTokens  int             // maximum tokens of the shown bullets; below 1 for no limit
	Duplicates *DuplicateIndex // nil detects only equal texts as duplicates
	Tokens     *TokenIndex     // nil counts all bullets in each draft

	Covered     func(*Item) bool            // reports whether the log covers an item; nil means that it covers none
	HasFeedback func(sample events.ID) bool // reports whether the log covers feedback on a sample; nil means that it does not

	GateMode playbook.Gate   // of a playbook without its own mode; empty means guard
	Gate     gate.Config     // thresholds of its decisions
	Policy   playbook.Policy // the settings of the Curator that the log records
	Burst    Burst
}

// Result is a drafted change, the number of items that it decides, and the remaining work.
type Result struct {
	Deltas []*playbook.Delta // empty if there is nothing to write
	// Decided is the number of items that need no further draft: the log covers them already, or this change does.
	Decided int
	// Unchecked contains the bullets that the gate must check in the next draft, even if no item is left.
	Unchecked []playbook.BulletID
	// Added counts the bullets that the change adds, by session or source.
	Added map[Contributor]int
	// NotReady reports that the first item that is not decided needs data before it can be drafted; see Item.ready. Then Deltas is empty, because
	// the log covers all of the decided items.
	NotReady bool
}

// Build drafts one change of p from as many items as fit, at least one. An edit or a correction gets its own change. unchecked is
// Result.Unchecked of the draft before. Build does not change p, but it may change the decisions of the items.
func Build(p *playbook.Playbook, cfg Config, items []*Item, unchecked []playbook.BulletID) Result {
	return newDraft(p, cfg).draftItems(items, unchecked)
}

// draftItems drafts one change, see Build. The draft is empty. An edit that exceeds the size of a delta, such as a restore, gets several.
func (d *draft) draftItems(items []*Item, unchecked []playbook.BulletID) Result {
	out := playbook.Delta{Author: history.Curator}
	decided, ready := d.addItems(items, &out)
	if !ready {
		return Result{Decided: decided, Unchecked: unchecked, NotReady: true}
	}
	d.flushCounts() // of votes and outcomes
	unchecked = d.decideGate(unchecked)
	d.enforceBudget()
	if d.edit != nil && d.edit.Gathers() { // the decision also counts the bullets that the gate and the budget change
		d.fillDecision(&d.edit.Decision)
	}
	if len(d.covers) == 0 && len(d.ops) == 0 { // nothing to write; unchecked is empty too, because an empty delta has room for the gate
		return Result{Decided: decided}
	}
	if !d.byPerson {
		d.recordSettings(&out)
	}
	AddControlSalt(&d.recorded, &out)
	out.Covers = d.covers
	out.Ops = d.ops
	out.Rejected = d.rejections.list()
	change := []*playbook.Delta{&out}
	if d.edit != nil {
		change = split(&out)
	}
	return Result{Deltas: change, Decided: decided, Unchecked: unchecked, Added: d.added}
}

// addItems adds the items that the delta has room for, and returns their number. It counts those that the log covers already. ready is false
// if the first item that is not covered needs data first; then nothing is drafted.
func (d *draft) addItems(items []*Item, out *playbook.Delta) (decided int, ready bool) {
	seen := map[playbook.CoverKey]bool{} // a batch may contain an event twice
	for _, item := range items {
		cover := item.Cover()
		key := cover.Key()
		if seen[key] || d.covered(item) {
			decided++
			continue
		}
		if item.Reflection != nil && item.Reflection.FirstOutcome && d.hasFeedback(item) {
			item.mustCorrect = true // makes the item a correction: other feedback on the sample is in the log already, so this outcome is not the first
		}
		isAlone := item.Edit != nil || item.IsCorrection()
		if len(d.covers) > 0 && (isAlone || !d.hasRoomForReflection(item)) {
			return decided, true // this item goes to the next delta
		}
		if !item.ready(d.base) && !d.forgets(item) { // only edits and corrections need data, so no item was drafted before
			return decided, false
		}
		seen[key] = true
		decided++
		if item.Edit != nil {
			d.draftEdit(item, out)
			return decided, true
		}
		d.draftReflection(item, out)
		if isAlone {
			return decided, true
		}
	}
	return decided, true
}

// recordSettings records the settings of the Curator in a delta, if the log has others; d.recorded are those of d.base. The delta of an edit
// records none, because the program that applies it, such as a command, may have other settings than the running Curator.
func (d *draft) recordSettings(out *playbook.Delta) {
	if _, chosen := d.base.Gate(); !chosen && d.mode != playbook.GateGuard {
		out.Gate = d.mode
	}
	if !d.recorded.Policy.Equal(d.Policy) {
		out.Policy = &d.Policy
	}
}

// AddControlSalt adds the random salt of a playbook to the delta that first switches its control share on. recorded is the state before it.
func AddControlSalt(recorded *playbook.Admission, out *playbook.Delta) {
	switchesOn := out.Control.PerMille() > 0 || out.Policy != nil && out.Policy.Control.PerMille() > 0
	if switchesOn && len(recorded.ControlSalt) == 0 {
		out.ControlSalt = make([]byte, saltBytes)
		_, _ = rand.Read(out.ControlSalt) // never fails
	}
}

// saltBytes is the length of a salt. Nobody can guess 128 random bits.
const saltBytes = 16

// draftReflection drafts the votes, outcomes and proposals of one reflection.
func (d *draft) draftReflection(item *Item, out *playbook.Delta) {
	item.coverIndex = d.cover(item)
	if item.Model != "" {
		out.Model, out.Prompt = item.Model, item.Prompt
	}
	if d.forgets(item) { // the log gets no text of a forgotten execution
		d.covers[item.coverIndex].Evidence.Excerpt = ""
		op := playbook.Op{Support: []int{item.coverIndex}}
		d.reject(op, screen.Refusef(playbook.ReasonForgotten, "execution %s is forgotten", item.Reflection.Handle))
		return
	}
	d.suspendViolated(item)
	if item.IsCorrection() {
		d.draftCorrection(item)
		return
	}
	if d.hasFeedback(item) {
		d.rejectOutdated(item)
		return
	}
	for _, r := range item.Rejected {
		d.rejections.add(r)
	}
	d.addOutcomes(item)
	voted := map[playbook.BulletID]bool{}
	for _, t := range item.Reflection.Tags {
		if voted[t.ID] {
			d.reject(voteOp(t.ID, t.Tag, item.coverIndex), screen.Refusef(playbook.ReasonVoted, "bullet %q already has a vote of this sample", t.ID))
			continue
		}
		voted[t.ID] = d.vote(t.ID, t.Tag, item.coverIndex)
	}
	d.draftProposals(item)
}

// covered reports whether the log covers an item.
func (d *draft) covered(item *Item) bool { return d.Covered != nil && d.Covered(item) }

// hasFeedback reports whether the log covers feedback on the sample of a reflection.
func (d *draft) hasFeedback(item *Item) bool {
	return d.HasFeedback != nil && d.HasFeedback(item.Reflection.SampleID())
}

// forgets reports whether an item is a reflection on an execution that was forgotten before.
func (d *draft) forgets(item *Item) bool {
	return item.Reflection != nil && d.recorded.Forgets(item.Reflection.Evidence())
}

// draftProposals drafts the proposals of a reflection. A proposal is rejected without its text if one of the executions behind it is
// forgotten by now.
func (d *draft) draftProposals(item *Item) {
	for _, p := range item.Proposals {
		op := p.Op
		op.Support = d.support(item, &p)
		if slices.ContainsFunc(p.From, d.forgets) {
			op.When, op.Content = "", ""
			d.reject(op, screen.Refusef(playbook.ReasonForgotten, "an execution behind the proposal is forgotten"))
			continue
		}
		if refusal := d.propose(op, d.groundsOf(item, p.From)); refusal != nil {
			d.reject(op, refusal)
		}
	}
}
