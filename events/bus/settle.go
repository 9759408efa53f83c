package bus

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/redact"
)

// process handles deliveries until each is settled. What must be held is tried again here, in place. The caller has a
// slot.
func (r *run) process(items []*item) {
	for try := 0; len(items) > 0; try++ {
		good, bad := r.decode(items)
		again, why := r.settle(bad, nil, nil) // at once: a handler can take long
		r.handle(good)
		if items, why = r.settle(good, again, why); len(items) == 0 {
			if try > 0 {
				r.hold(-1, nil)
			}
			return
		}
		if try == 0 {
			r.hold(+1, why)
		} else {
			r.hold(0, why)
		}
		<-r.slots // for a probe
		on := r.waitHeld(why, try)
		r.slots <- struct{}{}
		if !on {
			for _, it := range items {
				r.giveBack(it, r.p.BackoffMin)
			}
			return
		}
	}
}

// decode fetches and decodes the events of items. Bad are those that no handler can be given.
func (r *run) decode(items []*item) (good, bad []*item) {
	good = items[:0:0]
	for _, it := range items {
		if it.done == nil && it.d.Event == nil {
			e, err := r.w.decode(r.work, r.message(it))
			if err != nil {
				it.done = &Result{Err: err}
				bad = append(bad, it)
				continue
			}
			redact.Fields(e) // who publishes past us does not redact
			it.d.Event = e
		}
		good = append(good, it)
	}
	return good, bad
}

// handle runs the handler on the deliveries that have no result yet. A panic is the error of all of them.
func (r *run) handle(items []*item) {
	todo := make([]*item, 0, len(items))
	batch := make([]*Delivery, 0, len(items))
	for _, it := range items {
		if it.done == nil {
			todo, batch = append(todo, it), append(batch, &it.d)
		}
	}
	if len(todo) == 0 {
		return
	}
	results := r.call(todo, batch)
	for i, it := range todo {
		if i < len(results) {
			it.done = &results[i]
			r.note(it, it.done.Err)
		} else {
			it.done = &Result{Err: fmt.Errorf("handler of %s returned %d results for %d deliveries", r.w.Role, len(results), len(batch))}
		}
	}
}

func (r *run) call(items []*item, batch []*Delivery) (out []Result) {
	began := time.Now()
	ctx, end := r.enter(items)
	defer end()
	defer func() {
		if p := recover(); p != nil {
			failed := &panicError{p}
			zerolog.Ctx(ctx).Error().Str(zerolog.ErrorFieldName, failed.Loggable()).Bytes("stack", debug.Stack()).Msg("handler panicked")
			out = make([]Result, len(batch))
			for i := range out {
				out[i].Err = failed
			}
		}
		if slices.ContainsFunc(out, func(x Result) bool { return x.Err == nil }) {
			r.c.vitals.count(r.w.Role, func(v *record) { v.call(time.Since(began)) })
		}
	}()
	return r.w.Handle(ctx, batch)
}

// settle carries out the verdicts on handled deliveries. It adds those that must be held to again, and why.
func (r *run) settle(items, again []*item, why error) ([]*item, error) {
	for _, it := range items {
		if err := r.settleOne(it); err != nil {
			again, why = append(again, it), err
		}
	}
	return again, why
}

// settleOne returns an error when the delivery must be held.
func (r *run) settleOne(it *item) error {
	err := it.done.Err
	if err == nil {
		err = r.store(it)
	}
	err = r.excuse(it, err)
	attempt := r.attempt(it)
	// What a batching worker holds stands in the way of its book: it is given back while it can be.
	paused := r.isPaused() && (r.w.Batch == 1 || attempt >= r.p.MaxDeliver)
	it.verdict, it.why = r.p.judge(err, attempt, paused), err
	switch it.verdict {
	case ack:
		r.ack(it)
		r.c.vitals.count(r.w.Role, func(v *record) { v.settled(it.stored > 0) })
	case retry:
		log := r.about(it)
		log.Warn().Str(zerolog.ErrorFieldName, Loggable(err)).Int(events.LogDelivery, attempt).Msg("will be tried again")
		r.giveBack(it, r.p.backoff(attempt))
		r.c.vitals.count(r.w.Role, func(v *record) { v.Retried++ })
	case hold:
		if it.done.Err != nil {
			it.done = nil // to be handled again; a result that only waits to be stored is kept
		}
		it.mark(string(hold), err)
		log := r.about(it)
		log.Debug().Str(zerolog.ErrorFieldName, Loggable(err)).Int(events.LogDelivery, attempt).Msg("held")
		return err
	case dead:
		if berr := r.bury(it, err, attempt); berr != nil {
			it.verdict = hold
			return berr // the message stays with us until its letter is stored
		}
		log := r.about(it)
		log.Error().Str(zerolog.ErrorFieldName, Loggable(err)).Int(events.LogDelivery, attempt).Msg("dead letter")
		r.ack(it)
		r.c.vitals.count(r.w.Role, func(v *record) { v.Dead, v.Buried = v.Dead+1, v.Buried+1 })
	case refuse:
		r.change(func(s *condition) { s.outdated = err })
		r.giveBack(it, r.p.BackoffMax)
	}
	return nil
}

// store publishes what came of a delivery and answers whoever asked. Only then may the delivery be acked. A second call
// goes on where the first one failed.
func (r *run) store(it *item) error {
	for ; it.stored < len(it.done.Events); it.stored++ {
		marks := Marks{Repeat: it.d.Repeat || it.doubt, Trace: it.d.Trace}
		receipt, msg, err := r.c.publish(r.work, it.done.Events[it.stored], marks)
		if err != nil {
			// Without an answer nobody knows, and the hold may outlast the server's memory of ids.
			it.doubt = it.doubt || !full(err)
			return err
		}
		if it.stored == 0 {
			if receipt.Duplicate && replyTo(it.d.Event) != "" { // who asked is told what counts: what was stored first
				first, err := r.c.original(r.work, it.done.Events[0].Kind(), receipt.Seq)
				if err != nil {
					return err
				}
				if first != nil {
					msg = first
				}
			}
			it.first = msg
			it.first.Header.Set(events.HeaderHandle, string(receipt.Handle))
			it.where = receipt
		}
	}
	if it.done.Then != nil && it.first != nil {
		if err := it.done.Then(r.work, it.where); err != nil {
			return err
		}
		it.done.Then = nil
	}
	switch to := replyTo(it.d.Event); {
	case to == "":
	case it.done.Reply != nil:
		r.c.reply(&nats.Msg{Subject: to, Data: it.done.Reply, Header: events.SchemaHeader()})
	case it.first != nil:
		it.first.Subject = to
		r.c.reply(it.first)
	}
	return nil
}

func replyTo(e events.Event) string {
	if a, ok := e.(interface{ ReplySubject() string }); ok {
		return a.ReplySubject()
	}
	return ""
}

// bury stores the dead letter of a delivery.
func (r *run) bury(it *item, why error, attempt int) error {
	m := r.message(it)
	letter := &events.DeadLetter{
		Role: r.w.Role, Reason: why.Error(), Deliveries: attempt,
		Stream: source(r.w.Role), Seq: it.d.Seq, Subject: m.Subject(), Header: m.Headers(), Data: m.Data(), Time: time.Now().UTC(),
	}
	if err := r.c.Bury(r.work, letter); err != nil {
		return err
	}
	r.c.refuse(it.d.Event, why.Error())
	return nil
}

// ack lets go of what is done. It is ours until the ack is on its way: a redelivery that crosses it is absorbed by
// accept, and the server takes the ack for both.
func (r *run) ack(it *item) {
	it.end()
	r.settled(r.message(it).Ack(), it)
	r.forget(it)
}

// giveBack lets go of what somebody is to have again. It is not ours any more before the server knows: else accept
// would absorb the delivery that this brings about, and nobody would settle that.
func (r *run) giveBack(it *item, after time.Duration) {
	it.end()
	r.settled(r.forget(it).NakWithDelay(after), it)
}

func (r *run) settled(err error, it *item) {
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.log.Debug().Err(err).Uint64(events.LogSeq, it.d.Seq).Msg("settle")
	}
}

// forget takes an item out of what we hold and returns the message to settle.
func (r *run) forget(it *item) jetstream.Msg {
	r.mu.Lock()
	m := it.msg
	if r.held[it.d.Seq] == it {
		delete(r.held, it.d.Seq)
		r.heldBytes -= len(m.Data()) // each delivery of it has the same
	}
	r.mu.Unlock()
	r.wakeUp()
	return m
}

func (r *run) message(it *item) jetstream.Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.msg
}

func (r *run) attempt(it *item) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.attempt
}
