// Package propose asks models for changes of a playbook. It sends reflections in groups, parses the replies, combines the
// proposals of all groups and lets a model resolve their conflicts. A proposal is an operation with the reflections that
// support it; the package draft decides whether it becomes part of a delta.
package propose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"debrief/curator/draft"
	"debrief/curator/gate"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/text"
)

// Item is an item of a draft. If it is a reflection with lessons, Propose adds its proposals.
type Item struct {
	draft.Item
	// NoModel keeps the text of the reflection from models. Each of its lessons is proposed as a bullet.
	NoModel bool

	Useful bool  // a model was asked about the reflection, and its reply was useful
	Err    error // no request about the reflection succeeded; it has no proposals

	index int                // in the batch for the model
	input *events.Reflection // the part of Reflection that the model sees
}

// Proposer makes proposals. It is safe for concurrent use if the model is.
type Proposer struct {
	Model chat.Model    // nil: each lesson with new content is proposed as a bullet
	Rules *screen.Rules // checks of the texts of lessons and proposals
}

// Round is one round of proposals: the state of the playbook that models see, and the cost and errors of the requests.
type Round struct {
	Playbook   *playbook.Playbook
	Rejections *RejectionLog
	Bullets    *BulletIndex
	// TokenBudget is the maximum number of tokens of the shown bullets; below 1 for no limit.
	TokenBudget int
	// AllOrNothing requires that the result does not depend on temporary failures.
	AllOrNothing bool

	// Propose sets the fields below.

	Err   error // with AllOrNothing: a temporary failure, so that the proposals must not be used
	Usage chat.Usage
	Asked int // number of reflections in requests to a model
}

// Propose fills in the results of the items. A lesson whose text a bullet already has needs no model. If a model fails, the
// items that need it get its error, and the others do not wait for it. The indexes of the round must not be in use by another
// round.
func (w *Proposer) Propose(ctx context.Context, round *Round, items []*Item) {
	round.Rejections.update(round.Playbook)
	var open []*Item // items that need a model
	for _, item := range items {
		fresh := w.splitLessons(round, item)
		if w.Model == nil || item.NoModel {
			w.proposeLessons(round, item, fresh)
		} else if len(fresh) > 0 {
			item.input = w.modelInput(round, item, fresh)
			open = append(open, item)
		}
	}
	if len(open) > 0 {
		w.askInGroups(ctx, round, open)
	}
}

// splitLessons returns the lessons with new content as operations. It rejects invalid lessons. It proposes these lessons at once, without a
// model:
//
//   - A lesson that looks like an order to models. The draft puts it into quarantine.
//   - A lesson whose text a bullet already has. The draft decides whether it confirms that bullet or is a duplicate.
func (w *Proposer) splitLessons(round *Round, item *Item) (fresh []playbook.Op) {
	for _, l := range item.Reflection.Lessons {
		op, err := lessonOp(&l)
		if err != nil {
			item.reject(op, screen.Refusef(playbook.ReasonInvalidText, "%v", err))
			continue
		}
		isSuspect := screen.IsSuspect(&op)
		isKnown := inPlaybook(round.Playbook, op.Content) || isReturnable(round.Playbook, op.Content)
		if isKnown && !isSuspect {
			item.propose(op)
			continue
		}
		refusal := w.refuseLesson(round, op.Content)
		switch {
		case refusal != nil:
			item.reject(op, refusal)
		case isSuspect:
			item.propose(op)
		default:
			fresh = append(fresh, op)
		}
	}
	return fresh
}

// lessonOp returns the operation that adds a lesson. If the lesson looks like an order to models, the operation has the code of that. After an
// error the operation has no text.
func lessonOp(l *events.Lesson) (playbook.Op, error) {
	op := playbook.Op{Kind: playbook.Add, Section: playbook.Section(l.Section)}
	when, content, err := playbook.CleanText(l.When, l.Content)
	if err != nil {
		return op, err
	}
	op.When, op.Content = when, content
	op.Code = l.Code // the mark of the Reflector; other codes are dropped
	if screen.IsSuspect(&op) {
		op.Reason = text.Excerpt(l.Reason, screen.MaxReason)
	} else {
		op.Code = ""
	}
	screen.Suspect(&op)
	return op, nil
}

// proposeLessons proposes each lesson as a bullet.
func (w *Proposer) proposeLessons(round *Round, item *Item, lessons []playbook.Op) {
	for _, op := range lessons {
		if refusal := w.refuse(round, &op); refusal != nil {
			item.reject(op, refusal)
		} else {
			item.propose(op)
		}
	}
}

// propose adds a proposal that only this item supports.
func (item *Item) propose(op playbook.Op) {
	item.Proposals = append(item.Proposals, draft.Proposal{Op: op})
}

// modelInput returns the reflection to send to a model, with the fresh lessons only.
func (w *Proposer) modelInput(round *Round, item *Item, fresh []playbook.Op) *events.Reflection {
	r := *item.Reflection
	insight := playbook.ContentKeyOf(r.KeyInsight)
	if inPlaybook(round.Playbook, r.KeyInsight) || w.refuseLesson(round, r.KeyInsight) != nil || looksLikeOrder(r.KeyInsight) {
		r.KeyInsight = ""
	}
	r.Lessons = make([]events.Lesson, len(fresh))
	for i, op := range fresh {
		r.Lessons[i] = events.Lesson{Section: op.Section, When: op.When, Content: op.Content}
		if r.KeyInsight != "" && playbook.ContentKeyOf(op.Content) == insight {
			r.Lessons[i].Content = r.KeyInsight // exactly equal, so that the prompt leaves out the lesson
		}
	}
	return &r
}

// refuse returns the reason to reject a proposal because of its text alone, or nil. It does not look at the playbook.
func (w *Proposer) refuse(round *Round, op *playbook.Op) *screen.Refusal {
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Merge:
	case playbook.Confirm:
		if op.Content == "" {
			return nil
		}
	default:
		return nil
	}
	if refusal := w.Rules.Refuse(op.Content); refusal != nil {
		return refusal
	}
	return round.Rejections.refuse(op.Content)
}

// refuseLesson returns the reason not to send a text to a model, or nil. A text that is too short for a bullet is sent: the model may turn it
// into advice.
func (w *Proposer) refuseLesson(round *Round, content string) *screen.Refusal {
	if refusal := w.Rules.RefuseMaterial(content); refusal != nil {
		return refusal
	}
	return round.Rejections.refuse(content)
}

// reject records a rejected operation of the item, with secrets redacted.
func (item *Item) reject(op playbook.Op, refusal *screen.Refusal) {
	op.When, op.Content, op.Reason = screen.Redact(op.When), screen.Redact(op.Content), screen.Redact(op.Reason)
	item.Rejected = append(item.Rejected, refusal.Rejection(op))
}

// looksLikeOrder reports whether a text looks like an order to models.
func looksLikeOrder(content string) bool {
	_, suspect := admit.Screen(content)
	return suspect
}

// inPlaybook reports whether a bullet has this content and is not retired.
func inPlaybook(p *playbook.Playbook, content string) bool {
	b := p.FindByContent(content)
	return b != nil && b.Status != playbook.Retired
}

// isReturnable reports whether a retired bullet has this content and may return, because no person retired it. Then the
// proposals of its text are counted.
func isReturnable(p *playbook.Playbook, content string) bool {
	mode, _ := p.Gate()
	b := p.FindByContent(content)
	return mode != playbook.GateOff && b != nil && gate.MayReturn(b)
}

// noteError records a failed request. Useless output is not recorded: it counts as a reply without proposals.
func (round *Round) noteError(err error) {
	_, isUseless := errors.AsType[*chat.UselessError](err)
	if round.AllOrNothing && !isUseless {
		round.Err = err
	}
}

// groupResult is the result of the request for one group.
type groupResult struct {
	suggestions Suggestions
	model       string
	usage       chat.Usage
	err         error
	panicked    any
}

// askInGroups gets proposals from a model, in one request or in parallel requests for groups, and assigns them to the items.
// An item whose requests all failed gets the error.
func (w *Proposer) askInGroups(ctx context.Context, round *Round, items []*Item) {
	ids := make([]events.ID, len(items))
	for i, item := range items {
		ids[i], item.index = item.ID, i
	}
	round.Bullets.update(round.Playbook)
	state := round.state(items)
	var groups [][]*Item // an item may be in several groups
	var requests []Request
	for _, members := range assignGroups(ids) {
		var group []*Item
		for _, i := range members {
			group = append(group, items[i])
		}
		groups = append(groups, group)
		requests = append(requests, round.request(state, group))
	}
	results := w.askAll(ctx, requests)

	round.Asked += len(items)
	for _, item := range items {
		item.input = nil
	}
	var all []*groupProposal
	for g, group := range groups {
		result := &results[g]
		round.Usage = round.Usage.Add(result.usage)
		if result.err != nil {
			round.noteError(result.err)
			continue
		}
		for _, item := range group {
			item.Useful = true
		}
		all = append(all, w.groupProposals(round, g, group, result)...)
	}
	for g, group := range groups {
		for _, item := range group {
			if !item.Useful && item.Err == nil {
				item.Err = fmt.Errorf("propose changes: %w", results[g].err)
			}
		}
	}
	w.assignProposals(ctx, round, all)
}

// request returns the request for a group.
func (round *Round) request(s State, group []*Item) Request {
	request := Request{State: s}
	for _, item := range group {
		request.Reflections = append(request.Reflections, item.input)
	}
	round.addContext(&request)
	return request
}

// groupProposals returns the proposals of one group. It records the rejected ones with an item of the group.
func (w *Proposer) groupProposals(round *Round, number int, group []*Item, result *groupResult) (all []*groupProposal) {
	last := slices.MaxFunc(group, func(a, b *Item) int { return a.index - b.index })
	for _, r := range result.suggestions.Rejected {
		last.reject(r.Op, screen.Refusef(r.Code, "%s", r.Reason))
	}
	for _, suggested := range result.suggestions.Proposals {
		isMerge := suggested.Op.Kind == playbook.Merge
		numbers := suggested.Reflections
		if len(numbers) == 0 && len(group) == 1 && !isMerge {
			numbers = []int{1} // the request had no other insight
		}
		if len(numbers) == 0 && !isMerge { // a merge can rest on its bullets alone
			last.reject(suggested.Op, screen.Refusef(playbook.ReasonInvalid, "reflections: required: the numbers of the insights that the operation rests on"))
			continue
		}
		p := &groupProposal{op: suggested.Op, owner: last, group: number, model: result.model}
		for _, n := range numbers {
			p.support = append(p.support, group[n-1])
		}
		p.sortSupport()
		if len(p.support) > 0 {
			p.owner = p.support[len(p.support)-1]
		}
		p.inheritCondition()
		if w.screenText(round, p) {
			all = append(all, p)
		}
	}
	return all
}

// screenText reports whether a proposal remains after the checks of its text. It records a refused text with the owner. A Confirm remains without
// its better text, because it counts as a request for the bullet.
func (w *Proposer) screenText(round *Round, p *groupProposal) bool {
	isConfirm := p.op.Kind == playbook.Confirm
	if refusal := w.refuse(round, &p.op); refusal != nil {
		p.owner.reject(p.op, refusal)
		if !isConfirm {
			return false
		}
		p.op.When, p.op.Content = "", ""
	}
	p.op.Code = "" // only the screen sets a code
	screen.Suspect(&p.op)
	if isConfirm && screen.IsSuspect(&p.op) {
		p.owner.reject(p.op, screen.Refusef(p.op.Code, "%s", p.op.Reason))
		p.op.When, p.op.Content, p.op.Code, p.op.Reason = "", "", "", ""
	}
	return true
}

// askAll sends the requests in parallel, up to maxParallelCalls at a time.
func (w *Proposer) askAll(ctx context.Context, requests []Request) []groupResult {
	results := make([]groupResult, len(requests))
	slots := make(chan struct{}, maxParallelCalls)
	var calls sync.WaitGroup
	for i := range requests {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() {
				results[i].panicked = recover()
				<-slots
			}()
			out, reply, err := Ask(ctx, w.Model, requests[i])
			results[i] = groupResult{suggestions: out, model: reply.Model, usage: reply.Usage, err: err}
		})
	}
	calls.Wait()
	for i := range results {
		if p := results[i].panicked; p != nil {
			panic(p) // in the goroutine of the handler, where the bus recovers it
		}
	}
	return results
}

// assignProposals combines the proposals of all groups, resolves their conflicts and adds each one to its owner.
func (w *Proposer) assignProposals(ctx context.Context, round *Round, all []*groupProposal) {
	all = mergeEqual(all)
	if len(all) == 0 {
		return
	}
	var dropped []droppedProposal
	if needsReducer(all) {
		last := all[len(all)-1].owner
		var notes []string
		all, dropped, notes = w.reduce(ctx, round, all)
		for _, note := range notes {
			last.reject(playbook.Op{}, screen.Refusef(playbook.ReasonNotCompared, "%s", note))
		}
		all = mergeEqual(all)
	}
	all, more := resolveConflicts(all)
	for _, drop := range append(dropped, more...) {
		drop.owner.reject(drop.op, screen.Refusef(playbook.ReasonSuperseded, "%s", drop.reason))
	}
	for _, p := range all {
		proposal := draft.Proposal{Op: p.op}
		for _, item := range p.support {
			proposal.From = append(proposal.From, &item.Item)
		}
		p.owner.Proposals = append(p.owner.Proposals, proposal)
		p.owner.Model, p.owner.Prompt = p.model, PromptVersion
	}
}
