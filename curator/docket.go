package curator

import (
	"errors"
	"fmt"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/natskv"
)

// docket is one reflection or edit with what is proposed for it. Proposals are made once; which of them become
// operations is decided at every attempt to commit, against the state of that moment.
type docket struct {
	id      events.ID // of the event
	seq     uint64
	trace   string             // its trace id
	attempt int                // which delivery it is, from 1
	r       *events.Reflection // one of the two
	e       *events.Edit
	result  *bus.Result

	proposals []proposal           // what a model or the lessons themselves ask for
	rejected  []playbook.Rejection // what was turned down before there was a proposal
	model     string               // that made the proposals
	asked     *events.Reflection   // what a model is asked about it; nil when it is not
	cover     int                  // its place in the last draft's delta

	// Of an edit: what it needs to know of the past, and the last draft's outcome for the reply.
	past      *past
	gathering *gathering
	decision  events.Decision

	// Of a reflection on feedback: what its execution counts for, and how far the log was read for that.
	standing *history.Standing
	readTo   uint64
	waited   bool // for what came before it
	back     bool // there is something to move after all
}

// proposal is an operation that one docket brings, and the others before it in the batch that it was made from, too.
type proposal struct {
	op   playbook.Op
	from []*docket
}

func newDocket(d *bus.Delivery, result *bus.Result) (*docket, error) {
	k := &docket{id: d.Event.EventID(), seq: d.Seq, attempt: d.Attempt, trace: events.TraceID(d.Trace), result: result}
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

// covers returns the cover of the docket's event.
func (k *docket) covers() playbook.Cover {
	if k.e != nil {
		return k.e.Cover(k.seq)
	}
	return k.r.Cover(k.seq)
}

// lookup looks up covered ids at one state. It remembers the first error, for callers that cannot return one.
type lookup struct {
	state natskv.State
	err   error
}

func (l *lookup) covered(k *docket) bool {
	cover := k.covers()
	ok, err := l.state.Covers(cover.Key())
	l.err = errors.Join(l.err, err)
	return ok
}

// judged reports whether feedback on a sample is covered.
func (l *lookup) judged(sample events.ID) bool {
	ok, err := l.state.Covers(playbook.JudgedKey(string(sample)))
	l.err = errors.Join(l.err, err)
	return ok
}

// decide fills in the results of settled dockets. An edit is answered with the version that holds it.
func decide(settled []*docket, s natskv.State) {
	for _, k := range settled {
		*k.result = bus.Result{Version: s.Playbook().Version(), Asked: k.asked != nil}
		if k.e == nil {
			continue
		}
		k.decision.Version, k.decision.Chain = s.Playbook().Version(), s.Chain()
		if k.gathering != nil {
			k.gathering.tell(&k.decision)
		}
		reply, err := events.Marshal(&k.decision)
		if err == nil {
			k.result.Reply = reply
		}
	}
}
