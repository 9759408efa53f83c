package curator

import (
	"context"
	"fmt"
	"slices"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/natskv"
)

// docket is one reflection or edit with what is proposed for it. Proposals are made once; which of them become
// operations is decided at every attempt to commit, against the state of that moment.
type docket struct {
	id       events.ID
	seq      uint64
	repeated bool
	attempt  int                // which delivery it is, from 1
	r        *events.Reflection // one of the two
	e        *events.Edit
	result   *bus.Result

	proposals []proposal           // what a model or the lessons themselves ask for
	rejected  []playbook.Rejection // what was turned down before there was a proposal
	model     string               // that made the proposals
	cover     int                  // its place in the last draft's delta

	// Of an edit: what it needs to know of the past, and the last draft's outcome for the reply.
	past     *past
	decision events.Decision

	// Of a reflection on feedback: what its execution counts for, and how far the log was read for that.
	standing *history.Standing
	readTo   uint64
}

// proposal is an operation that one docket brings, and the others before it in the batch that it was made from, too.
type proposal struct {
	op   playbook.Op
	from []*docket
}

func newDocket(d *bus.Delivery, result *bus.Result) (*docket, error) {
	k := &docket{id: d.Event.EventID(), seq: d.Seq, repeated: d.Repeat, attempt: d.Attempt, result: result}
	switch e := d.Event.(type) {
	case *events.Reflection:
		k.r = e
	case *events.Edit:
		k.e = e
	default:
		return nil, fmt.Errorf("a curator handles no %s", d.Event.Kind())
	}
	return k, nil
}

func (k *docket) covered(s natskv.State) bool { return s.Covers(k.id, k.seq, k.repeated) }

// maxContext is how many bullets a proposing model sees.
const maxContext = 200

// propose makes the proposals of every docket that brings lessons. With a model it is one call for all of them. It
// returns the dockets that are ready: all of them, or, when the model is of no use, those that need none; the others
// have the error as their result. What needs no model does not wait for one.
func (d *desk) propose(ctx context.Context, s natskv.State, cases []*docket) (ready []*docket) {
	var with []*docket
	for _, k := range cases {
		if k.r != nil && len(k.r.Lessons) > 0 && !k.covered(s) {
			with = append(with, k)
		}
	}
	if len(with) == 0 {
		return cases
	}
	if d.model == nil {
		for _, k := range with {
			for _, l := range k.r.Lessons {
				k.adopt(l)
			}
		}
		return cases
	}
	if err := d.ask(ctx, s.Playbook(), with); err != nil {
		for _, k := range with {
			*k.result = bus.Result{Err: fmt.Errorf("propose changes: %w", err)}
		}
		return slices.DeleteFunc(cases, func(k *docket) bool { return slices.Contains(with, k) })
	}
	return cases
}

// ask has the model make proposals of lessons, and gives each to the last of the dockets it rests on.
func (d *desk) ask(ctx context.Context, p *playbook.Playbook, with []*docket) error {
	request := Request{Bullets: p.Top(maxContext), Total: p.Len()}
	for _, k := range with {
		request.Reflections = append(request.Reflections, k.r)
	}
	out, reply, err := Ask(ctx, d.model, request)
	if err != nil {
		return err
	}
	last := with[len(with)-1]
	for _, pr := range out.Proposals {
		k := last
		var from []*docket
		if len(pr.Reflections) > 0 {
			k = with[slices.Max(pr.Reflections)-1]
			for _, n := range pr.Reflections {
				from = append(from, with[n-1])
			}
		}
		k.proposals, k.model = append(k.proposals, proposal{pr.Op, from}), reply.Model
	}
	last.rejected = append(last.rejected, out.Rejected...)
	return nil
}

// adopt proposes a lesson as a bullet, as it is.
func (k *docket) adopt(l events.Lesson) {
	op := playbook.Op{Kind: playbook.Add, Section: playbook.Section(l.Section)}
	content, err := playbook.CleanContent(l.Content)
	if err != nil {
		k.rejected = append(k.rejected, playbook.Rejection{Op: op, Reason: err.Error()})
		return
	}
	op.Content = content
	k.proposals = append(k.proposals, proposal{op: op})
}

// decide fills in the results of settled dockets. An edit is answered with the version that holds it.
func decide(settled []*docket, s natskv.State) {
	for _, k := range settled {
		*k.result = bus.Result{}
		if k.e == nil {
			continue
		}
		k.decision.Version, k.decision.Chain = s.Playbook().Version(), s.Chain()
		reply, err := events.Marshal(&k.decision)
		if err == nil {
			k.result.Reply = reply
		}
	}
}
