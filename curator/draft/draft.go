// Package draft turns reflections, edits and proposals into deltas of a playbook. A draft decides against one state of the
// playbook. It checks duplicates, trust in the source, the token budget and the size limits of a delta. It lets the gate
// decide on experiments, and it records each rejection with a reason code and a sentence. It uses no transport and no model,
// so it can be repeated against another state after a conflict.
package draft

import (
	"crypto/rand"
	"slices"
	"time"

	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// draft turns proposals into operations against one state. Each proposal sees the effect of the earlier ones, so a batch
// has the same result as its reflections one by one. Its parts share the state that is being built.
type draft struct {
	*state
	sources    *sources
	changes    *changes
	admission  *admission
	evidence   *evidence
	pruner     *pruner
	gatekeeper *gatekeeper
}

// Result is a drafted change, the number of items that it decides, and the remaining work.
type Result struct {
	Deltas []*playbook.Delta // empty if there is nothing to write
	// Decided is the number of items that the change, together with the log before it, decides.
	Decided int
	// Unchecked contains the bullets that the gate must check in the next draft, even if no item is left.
	Unchecked []playbook.BulletID
	// Added counts the bullets that the change adds, by session or source.
	Added map[Contributor]int
	// NotReady reports that the item after the decided ones needs data of this state first. Then Deltas is empty, and the log before it decides
	// all of the decided items.
	NotReady bool
}

// draftItems drafts one delta from as many items as fit, at least one. An edit or a correction gets a delta of its own; an edit that
// exceeds the size of a delta, such as a restore, gets several. unchecked is the list that the draft before returned.
func (d *draft) draftItems(covered func(*Item) bool, items []*Item, unchecked []playbook.BulletID) Result {
	out := playbook.Delta{Author: history.Curator}
	seen := map[playbook.CoverKey]bool{}
	decided := 0
	var edit *Item
	for _, item := range items {
		cover := item.Cover()
		key := cover.Key()
		if seen[key] || covered(item) {
			decided++
			continue
		}
		if item.Reflection != nil && item.Reflection.FirstOutcome && d.hasFeedback(item) {
			item.mustCorrect = true // other feedback on the sample is in the log already, so this outcome is not the first
		}
		isAlone := item.Edit != nil || item.IsCorrection()
		if len(d.covers) > 0 && (isAlone || !d.fits(item)) {
			break // to the next delta
		}
		if !item.ready(d.base) && !d.forgets(item) { // only an item that is alone: nothing is drafted yet
			return Result{Decided: decided, Unchecked: unchecked, NotReady: true}
		}
		seen[key] = true
		decided++
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
	d.flush()
	unchecked = d.gatekeeper.decideGate(unchecked)
	d.pruner.enforceBudget()
	if edit != nil && edit.Gathers() { // the decision also counts the bullets that the gate and the budget change
		d.fillDecision(&edit.Decision)
	}
	if len(d.covers) == 0 && len(d.ops) == 0 { // then the gate had room for every decision: nothing is unchecked
		return Result{Decided: decided}
	}
	if _, chosen := d.base.Gate(); !chosen && !d.byPerson && d.mode != playbook.GateGuard {
		out.Gate = d.mode
	}
	d.recordSettings(&out)
	AddControlSalt(&d.recorded, &out)
	out.Covers = d.covers
	out.Ops = d.ops
	out.Rejected = d.rejections.list()
	change := []*playbook.Delta{&out}
	if d.unlimited {
		change = split(&out)
	}
	return Result{Deltas: change, Decided: decided, Unchecked: unchecked, Added: d.sources.added}
}

// recordSettings records the settings of the Curator in a delta, if the log has others. An edit records none, because the program that
// applies it, such as a command, may have other settings than the running Curator.
func (d *draft) recordSettings(out *playbook.Delta) {
	if !d.byPerson && !d.recorded.Policy.Equal(d.Settings) {
		out.Policy = &d.Settings
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

// Policy contains the settings and caches that decide about a proposal, besides the state of the playbook.
type Policy struct {
	Budget      Budget
	Duplicates  *DuplicateIndex             // nil detects only equal texts as duplicates
	Costs       Costs                       // cache of token counts; nil disables it
	HasFeedback func(sample events.ID) bool // reports whether the log covers feedback on a sample; nil means that it does not

	GateMode playbook.Gate // of a playbook without its own mode; empty means guard
	Gate     gate.Config   // thresholds of its decisions
	// Settings are the settings of the Curator that the log records.
	Settings playbook.Policy
	Burst    Burst
	Now      time.Time // zero disables decisions that depend on time
}

// Build drafts one change of p from as many items as fit, at least one. An edit or a correction gets its own change. covered
// reports whether the log covers an item. unchecked is Result.Unchecked of the draft before. Build does not change p, but it may change the
// decisions of the items.
func Build(p *playbook.Playbook, policy Policy, covered func(*Item) bool, items []*Item, unchecked []playbook.BulletID) Result {
	return newDraft(p, policy).draftItems(covered, items, unchecked)
}

// newDraft returns an empty draft on a state.
func newDraft(p *playbook.Playbook, policy Policy) *draft {
	s := newState(p, policy)
	d := &draft{state: s, sources: &sources{state: s, added: map[Contributor]int{}}, pruner: &pruner{s}, gatekeeper: &gatekeeper{s}}
	d.changes = &changes{state: s, sources: d.sources}
	d.admission = &admission{state: s, sources: d.sources, changes: d.changes}
	d.evidence = &evidence{state: s, sources: d.sources}
	return d
}

// draftReflection drafts the votes, outcomes and proposals of one reflection.
func (d *draft) draftReflection(item *Item) {
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
	d.evidence.addOutcomes(item)
	voted := map[playbook.BulletID]bool{}
	for _, t := range item.Reflection.Tags {
		op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{item.coverIndex}}
		d.evidence.vote(op, t.Tag, voted)
	}
	d.draftProposals(item)
}

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
		if refusal := d.admission.propose(op, d.contested(item, p.From)); refusal != nil {
			d.reject(op, refusal)
		}
	}
}
