package curator

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
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
)

// propose makes the proposals of all work items with lessons. A lesson whose text a bullet already has needs no model.
// Without a model, each other lesson is proposed as a bullet. propose returns the items that can be committed. If a model
// fails, the items that need it get the error as their result, and the others do not wait for it.
func (w *worker) propose(ctx context.Context, b *book, round *proposalRound, items []*workItem) (ready []*workItem, err error) {
	s := b.writer.State()
	log := coverLookup{state: s}
	var withLessons []*workItem
	for _, item := range items {
		if item.Reflection != nil && len(item.Reflection.Lessons) > 0 && !log.covered(&item.Item) {
			withLessons = append(withLessons, item)
		}
	}
	if len(withLessons) == 0 || log.err != nil {
		return items, log.err
	}
	if err := round.load(ctx); err != nil {
		return nil, err
	}
	round.rejectionLog.update(s.Playbook())
	var open []*workItem // items that need a model
	for _, item := range withLessons {
		refuse := w.refuseLesson(round.rejectionLog)
		fresh := item.splitLessons(s.Playbook(), refuse)
		// Text of an untrusted source is quarantined for a person and never sent to a model.
		if w.model != nil && w.trust[item.Reflection.Origin.Source].Level != draft.Untrusted {
			if item.modelInput = item.question(s.Playbook(), fresh, refuse); item.modelInput != nil {
				open = append(open, item)
			}
			continue
		}
		for _, op := range fresh {
			if why := w.refuse(round.rejectionLog, &op); why != nil {
				item.reject(op, why)
				continue
			}
			item.Proposals = append(item.Proposals, draft.Proposal{Op: op})
		}
	}
	if len(open) == 0 {
		return items, nil
	}
	failed := w.askInGroups(ctx, b, round, s.Playbook(), open)
	ready = slices.Clone(items) // the caller still uses items, and DeleteFunc clears the end of its slice
	return slices.DeleteFunc(ready, func(item *workItem) bool { return failed[item] }), nil
}

// refuse returns the reason to reject a proposal because of its text alone, or nil. It does not look at the playbook.
func (w *worker) refuse(m *rejectionLog, op *playbook.Op) *screen.Refusal {
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Merge:
	default:
		return nil
	}
	if why := w.content.Refuse(op.Content); why != nil {
		return why
	}
	return m.refuse(op.Content)
}

// refuseLesson returns a function that returns the reason not to send a lesson to a model, or nil. A text that is too short
// for a bullet is sent: the model may turn it into advice.
func (w *worker) refuseLesson(m *rejectionLog) func(string) *screen.Refusal {
	return func(content string) *screen.Refusal {
		if why := w.content.RefuseMaterial(content); why != nil {
			return why
		}
		return m.refuse(content)
	}
}

// reject records a rejected operation of the work item, with secrets redacted.
func (item *workItem) reject(op playbook.Op, why *screen.Refusal) {
	op.Content, op.Reason = screen.Redact(op.Content), screen.Redact(op.Reason)
	item.Rejected = append(item.Rejected, why.Rejection(op))
}

// splitLessons returns the lessons with new content as operations. It rejects invalid lessons. A lesson whose text a bullet
// already has becomes a proposal at once: the draft decides whether it confirms that bullet or is a duplicate.
func (item *workItem) splitLessons(p *playbook.Playbook, refuse func(string) *screen.Refusal) (fresh []playbook.Op) {
	for _, l := range item.Reflection.Lessons {
		op := playbook.Op{Kind: playbook.Add, Section: playbook.Section(l.Section)}
		content, err := playbook.CleanContent(l.Content)
		if err != nil {
			item.reject(op, screen.Refusef(playbook.ReasonInvalidText, "%v", err))
			continue
		}
		op.Content = content
		if inPlaybook(p, content) || isReturnable(p, content) {
			item.Proposals = append(item.Proposals, draft.Proposal{Op: op})
		} else if why := refuse(content); why != nil {
			item.reject(op, why)
		} else {
			fresh = append(fresh, op)
		}
	}
	return fresh
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
	if mode != playbook.GateOn || b == nil || b.Status != playbook.Retired {
		return false
	}
	return b.CurrentExperiment().Share < gate.ShownToAll
}

// question returns the reflection to send to a model, with the fresh lessons only. It returns nil without any.
func (item *workItem) question(p *playbook.Playbook, fresh []playbook.Op, refuse func(string) *screen.Refusal) *events.Reflection {
	if len(fresh) == 0 {
		return nil
	}
	r := *item.Reflection
	main := playbook.ContentKeyOf(r.KeyInsight)
	if r.KeyInsight != "" && (inPlaybook(p, r.KeyInsight) || refuse(r.KeyInsight) != nil) {
		r.KeyInsight = ""
	}
	r.Lessons = make([]events.Lesson, len(fresh))
	for i, op := range fresh {
		r.Lessons[i] = events.Lesson{Section: op.Section, Content: op.Content}
		if r.KeyInsight != "" && playbook.ContentKeyOf(op.Content) == main {
			r.Lessons[i].Content = r.KeyInsight // Prompt detects the equal text and leaves it out
		}
	}
	return &r
}

// proposalRound is one round of proposals: the rejection log to use, and the cost and errors of the requests.
type proposalRound struct {
	rejectionLog *rejectionLog
	load         func(context.Context) error // loads the rejection log
	usage        chat.Usage
	asked        int // number of reflections in requests to a model
	// allOrNothing requires that the result does not depend on temporary failures. err is such a failure; then the
	// proposals of the round must not be used.
	allOrNothing bool
	err          error
}

// noteError records a failed request. Useless output is not recorded: it counts as a reply without proposals.
func (round *proposalRound) noteError(err error) {
	if useless := (*chat.UselessError)(nil); round.allOrNothing && !errors.As(err, &useless) {
		round.err = err
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

// askInGroups gets proposals from a model, in one request or in parallel requests for groups, and assigns them to the work
// items. It returns the items for which no request succeeded, and sets the error as their result.
func (w *worker) askInGroups(
	ctx context.Context, b *book, round *proposalRound, p *playbook.Playbook, items []*workItem,
) (failed map[*workItem]bool) {
	ids := make([]events.ID, len(items))
	place := make(map[*workItem]int, len(items))
	for i, item := range items {
		ids[i], place[item] = item.ID, i
	}
	groups := assignGroups(ids)
	requests := make([]Request, len(groups))
	b.bulletIndex.update(p)
	for g, members := range groups {
		for _, i := range members {
			requests[g].Reflections = append(requests[g].Reflections, items[i].modelInput)
		}
		b.addContext(p, round.rejectionLog, &requests[g])
	}
	results := w.askAll(ctx, requests)

	round.asked += len(items)
	failed = make(map[*workItem]bool, len(items))
	for _, item := range items {
		failed[item] = true
		item.modelInput = nil
	}
	var all []*groupProposal
	for g, members := range groups {
		round.usage = round.usage.Add(results[g].usage)
		if err := results[g].err; err != nil {
			round.noteError(err)
			continue
		}
		for _, i := range members {
			delete(failed, items[i])
			items[i].modelDone = true
		}
		all = append(all, w.groupProposals(round, g, &results[g], members, items, place)...)
	}
	for g, members := range groups {
		for _, i := range members {
			if item := items[i]; failed[item] && (item.result.Err == nil || item.result.Err == errPending) {
				*item.result = bus.Result{Err: fmt.Errorf("propose changes: %w", results[g].err)}
			}
		}
	}
	w.assignProposals(ctx, round, p, all, place)
	return failed
}

// groupProposals returns the proposals of one group. The rejected ones are recorded with an item of the group. members
// contains the indexes of the group in items.
func (w *worker) groupProposals(
	round *proposalRound, group int, result *groupResult, members []int, items []*workItem, place map[*workItem]int,
) (all []*groupProposal) {
	last := items[slices.Max(members)]
	for _, r := range result.suggestions.Rejected {
		last.reject(r.Op, screen.Refusef(r.Code, "%s", r.Reason))
	}
	for _, suggested := range result.suggestions.Proposals {
		p := &groupProposal{op: suggested.Op, owner: last, group: group, model: result.model}
		if len(suggested.Reflections) > 0 {
			p.owner = items[members[suggested.Reflections[0]-1]]
		}
		for _, n := range suggested.Reflections {
			p.addSupport([]*workItem{items[members[n-1]]}, place)
		}
		if why := w.refuse(round.rejectionLog, &p.op); why != nil {
			p.owner.reject(p.op, why)
			continue
		}
		all = append(all, p)
	}
	return all
}

// askAll sends the requests in parallel, up to maxParallelCalls at a time.
func (w *worker) askAll(ctx context.Context, requests []Request) []groupResult {
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
			results[i] = w.askGroup(ctx, requests[i])
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

// askGroup sends one request. If the replies are not usable, it sends a second request that describes the problem, without
// the conversation so far.
func (w *worker) askGroup(ctx context.Context, in Request) groupResult {
	out, reply, err := Ask(ctx, w.model, in)
	if useless := (*chat.UselessError)(nil); errors.As(err, &useless) {
		before := reply.Usage
		in.Problem = useless.Err.Error()
		out, reply, err = Ask(ctx, w.model, in)
		reply.Usage = before.Add(reply.Usage)
	}
	return groupResult{suggestions: out, model: reply.Model, usage: reply.Usage, err: err}
}

// assignProposals combines the proposals of all groups, resolves their conflicts and adds each one to its owner.
func (w *worker) assignProposals(
	ctx context.Context, round *proposalRound, p *playbook.Playbook, all []*groupProposal, place map[*workItem]int,
) {
	if all = mergeEqual(all, place); len(all) == 0 {
		return
	}
	var dropped []droppedProposal
	if needsReducer(all) {
		last := all[len(all)-1].owner
		var notes []string
		all, dropped, notes = w.reduce(ctx, round, p, all, place)
		for _, note := range notes {
			last.reject(playbook.Op{}, screen.Refusef(playbook.ReasonNotCompared, "%s", note))
		}
		all = mergeEqual(all, place)
	}
	all, more := resolveConflicts(all)
	for _, drop := range append(dropped, more...) {
		drop.owner.reject(drop.op, screen.Refusef(playbook.ReasonSuperseded, "%s", drop.reason))
	}
	for _, m := range all {
		m.owner.Proposals = append(m.owner.Proposals, draft.Proposal{Op: m.op, From: drafts(m.support)})
		m.owner.Model, m.owner.Prompt = m.model, PromptVersion
	}
}
