package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
)

// propose makes the proposals of every docket that brings lessons. What the playbook says already, to the word, needs no
// model; without a model the other lessons are proposed as they are. It returns the dockets that are ready: all of them,
// or, where a model is of no use, those that need none; the others have the error as their result. What needs no model
// does not wait for one.
func (d *desk) propose(ctx context.Context, b *book, h *hearing, cases []*docket) (ready []*docket, err error) {
	s := b.w.State()
	log := lookup{state: s}
	var with []*docket
	for _, k := range cases {
		if k.r != nil && len(k.r.Lessons) > 0 && !log.covered(k) {
			with = append(with, k)
		}
	}
	if len(with) == 0 || log.err != nil {
		return cases, log.err
	}
	if err := h.load(ctx); err != nil {
		return nil, err
	}
	h.memory.follow(s.Playbook())
	var open []*docket // with something to ask a model
	for _, k := range with {
		refuse := d.refuseLesson(h.memory)
		fresh := k.sift(s.Playbook(), refuse)
		if d.model != nil && d.trust[k.r.Origin.Source].level != Untrusted { // whose words a person reads, and no model
			if k.asked = k.question(s.Playbook(), fresh, refuse); k.asked != nil {
				open = append(open, k)
			}
			continue
		}
		for _, op := range fresh {
			if why := d.refuse(h.memory, &op); why != "" {
				k.turnDown(op, why)
				continue
			}
			k.proposals = append(k.proposals, proposal{op: op})
		}
	}
	if len(open) == 0 {
		return cases, nil
	}
	failed := d.confer(ctx, b, h, s.Playbook(), open)
	ready = slices.Clone(cases) // because the caller still reads cases, and DeleteFunc clears its end
	return slices.DeleteFunc(ready, func(k *docket) bool { return failed[k] }), nil
}

// refuse is why a proposal is turned down whatever the playbook says, "" if it is not.
func (d *desk) refuse(m *memory, op *playbook.Op) string {
	switch op.Kind {
	case playbook.Add, playbook.Update, playbook.Merge:
	default:
		return ""
	}
	if why := d.content.refuse(op.Content); why != "" {
		return why
	}
	return m.refuse(op.Content)
}

// refuseLesson is why a lesson is not even shown to a model, "" if it is. A short one can become advice there.
func (d *desk) refuseLesson(m *memory) func(string) string {
	return func(content string) string {
		if why := d.content.unfit(content); why != "" {
			return why
		}
		return m.refuse(content)
	}
}

func (k *docket) turnDown(op playbook.Op, why string) {
	op.Content, op.Reason = redacted(op.Content), redacted(op.Reason)
	k.rejected = append(k.rejected, playbook.Rejection{Op: op, Reason: why})
}

// sift returns the lessons of a reflection as new bullets, those that are none aside. What a bullet says already, to the
// word, is proposed here as it is: what that comes to, for that bullet as it stands by then, is the draft's to say.
func (k *docket) sift(p *playbook.Playbook, refuse func(string) string) (fresh []playbook.Op) {
	for _, l := range k.r.Lessons {
		op := playbook.Op{Kind: playbook.Add, Section: playbook.Section(l.Section)}
		content, err := playbook.CleanContent(l.Content)
		if err != nil {
			k.turnDown(op, err.Error())
			continue
		}
		op.Content = content
		if said(p, content) || mayReturn(p, content) {
			k.proposals = append(k.proposals, proposal{op: op})
		} else if why := refuse(content); why != "" {
			k.turnDown(op, why)
		} else {
			fresh = append(fresh, op)
		}
	}
	return fresh
}

// said reports whether a bullet says this to the word that has not retired.
func said(p *playbook.Playbook, content string) bool {
	b := p.Same(content)
	return b != nil && b.Status != playbook.Retired
}

// mayReturn reports whether a bullet that says this has retired, and no person took it out: who asks for it again is
// counted.
func mayReturn(p *playbook.Playbook, content string) bool {
	mode, _ := p.Gate()
	b := p.Same(content)
	if mode != playbook.GateOn || b == nil || b.Status != playbook.Retired {
		return false
	}
	return b.TheCase().Share < shownToAll
}

// question is the reflection as a model is asked about it: with the lessons that are left. It is nil when there is
// nothing to ask.
func (k *docket) question(p *playbook.Playbook, fresh []playbook.Op, refuse func(string) string) *events.Reflection {
	if len(fresh) == 0 {
		return nil
	}
	r := *k.r
	main := playbook.WordingOf(r.KeyInsight)
	if r.KeyInsight != "" && (said(p, r.KeyInsight) || refuse(r.KeyInsight) != "") {
		r.KeyInsight = ""
	}
	r.Lessons = make([]events.Lesson, len(fresh))
	for i, op := range fresh {
		r.Lessons[i] = events.Lesson{Section: op.Section, Content: op.Content}
		if r.KeyInsight != "" && playbook.WordingOf(op.Content) == main {
			r.Lessons[i].Content = r.KeyInsight // to the letter, which is how a prompt tells that it is the same
		}
	}
	return &r
}

// hearing is what reflections are heard with: what of the book is remembered, and what it comes to.
type hearing struct {
	memory *memory
	load   func(context.Context) error // fills the memory
	usage  chat.Usage
	asked  int // reflections that a model was asked about
	// whole says that what comes of it must not depend on which calls failed. Err is why it is of no use then.
	whole bool
	err   error
}

// fail notes that a call failed. What a model answered that cannot be used is its answer, and the same the next time.
func (h *hearing) fail(err error) {
	if useless := (*chat.UselessError)(nil); h.whole && !errors.As(err, &useless) {
		h.err = err
	}
}

// minutes are what one group's call came to.
type minutes struct {
	suggestions Suggestions
	model       string
	usage       chat.Usage
	err         error
	panicked    any
}

// confer has a model make proposals of reflections: in one call, or in groups at the same time whose proposals are
// brought together. It returns the dockets that no call was of use for, and gives them their result.
func (d *desk) confer(ctx context.Context, b *book, h *hearing, p *playbook.Playbook, with []*docket) (failed map[*docket]bool) {
	ids := make([]events.ID, len(with))
	place := make(map[*docket]int, len(with))
	for i, k := range with {
		ids[i], place[k] = k.id, i
	}
	groups := deal(ids)
	requests := make([]Request, len(groups))
	b.shelf.follow(p)
	for g, members := range groups {
		for _, i := range members {
			requests[g].Reflections = append(requests[g].Reflections, with[i].asked)
		}
		b.frame(p, h.memory, &requests[g])
	}
	results := d.askAll(ctx, requests)

	h.asked += len(with)
	failed = make(map[*docket]bool, len(with))
	for _, k := range with {
		failed[k] = true
		k.asked = nil
	}
	var all []*motion
	for g, members := range groups {
		h.usage = h.usage.Add(results[g].usage)
		if err := results[g].err; err != nil {
			h.fail(err)
			continue
		}
		last := with[slices.Max(members)]
		for _, i := range members {
			delete(failed, with[i])
		}
		for _, r := range results[g].suggestions.Rejected {
			last.turnDown(r.Op, r.Reason)
		}
		for _, pr := range results[g].suggestions.Proposals {
			m := &motion{op: pr.Op, at: last, group: g, model: results[g].model}
			if len(pr.Reflections) > 0 {
				m.at = with[members[pr.Reflections[0]-1]]
			}
			for _, n := range pr.Reflections {
				m.rest([]*docket{with[members[n-1]]}, place)
			}
			if why := d.refuse(h.memory, &m.op); why != "" {
				m.at.turnDown(m.op, why)
				continue
			}
			all = append(all, m)
		}
	}
	for g, members := range groups {
		for _, i := range members {
			if k := with[i]; failed[k] && (k.result.Err == nil || k.result.Err == errUnsettled) {
				*k.result = bus.Result{Err: fmt.Errorf("propose changes: %w", results[g].err)}
			}
		}
	}
	d.carry(ctx, h, p, all, place)
	return failed
}

// askAll asks for every request at the same time, up to a bound.
func (d *desk) askAll(ctx context.Context, requests []Request) []minutes {
	results := make([]minutes, len(requests))
	slots := make(chan struct{}, atOnce)
	var calls sync.WaitGroup
	for i := range requests {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() {
				results[i].panicked = recover()
				<-slots
			}()
			results[i] = d.askGroup(ctx, requests[i])
		})
	}
	calls.Wait()
	for i := range results {
		if p := results[i].panicked; p != nil {
			panic(p) // where the bus expects it: one book's misfortune, not the process's
		}
	}
	return results
}

// askGroup sends one request. When the replies are not usable it sends the request once more, with the problem in it and
// without the conversation so far.
func (d *desk) askGroup(ctx context.Context, in Request) minutes {
	out, reply, err := Ask(ctx, d.model, in)
	if useless := (*chat.UselessError)(nil); errors.As(err, &useless) {
		before := reply.Usage
		in.Problem = useless.Err.Error()
		out, reply, err = Ask(ctx, d.model, in)
		reply.Usage = before.Add(reply.Usage)
	}
	return minutes{suggestions: out, model: reply.Model, usage: reply.Usage, err: err}
}

// carry brings the groups' proposals together and hands each to the docket that it is settled with.
func (d *desk) carry(ctx context.Context, h *hearing, p *playbook.Playbook, all []*motion, place map[*docket]int) {
	if all = join(all, place); len(all) == 0 {
		return
	}
	var lost []loser
	if disputed(all) {
		last := all[len(all)-1].at
		var notes []string
		all, lost, notes = d.reduce(ctx, h, p, all, place)
		for _, note := range notes {
			last.turnDown(playbook.Op{}, note)
		}
		all = join(all, place)
	}
	all, more := settleCollisions(all)
	for _, l := range append(lost, more...) {
		l.at.turnDown(l.op, l.why)
	}
	for _, m := range all {
		m.at.proposals, m.at.model = append(m.at.proposals, proposal{m.op, m.from}), m.model
	}
}
