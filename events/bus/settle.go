package bus

import (
	"context"
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
		good, bad := r.decode(r.prepare(items))
		again, why := r.settle(bad, nil, nil) // at once: a handler can take long
		r.handle(good)
		if items, why = r.settle(good, again, why); len(items) == 0 {
			if try > 0 {
				r.hold(-1, nil)
			}
			return
		}
		r.idle(items, true)
		if try == 0 {
			r.hold(+1, why)
		} else {
			r.hold(0, why)
		}
		<-r.slots // for a probe
		on := r.waitHeld(why, try)
		r.slots <- struct{}{}
		if !on {
			r.giveBack(items, r.p.BackoffMin)
			return
		}
	}
}

// prepare looks up the attempts at redelivered items and their dead letters. Items with a letter, items without an attempt
// left, and items that could not be looked up get an error as their result.
func (r *run) prepare(items []*item) []*item {
	if err := r.lookUp(r.work, items); err != nil {
		for _, it := range items {
			if !it.counted {
				it.done = &Result{Err: err}
			}
		}
		return items
	}
	var resumed []*item // to be handled once more, which is an attempt
	for _, it := range items {
		if it.idle && it.done == nil {
			resumed = append(resumed, it)
		}
	}
	r.idle(resumed, false)
	for _, it := range items {
		switch {
		case it.letter != "":
			it.done = &Result{Err: errBuried}
		case it.done == nil && it.d.Attempt > r.p.MaxAttempts:
			it.done = &Result{Err: &exhaustedError{r.p.MaxAttempts}}
		}
	}
	return items
}

// errBuried is the result of an item that has a dead letter already.
var errBuried = errors.New("has a dead letter")

// decode fetches and decodes the events of items. Bad are those that no handler can be given.
func (r *run) decode(items []*item) (good, bad []*item) {
	good = items[:0:0]
	for _, it := range items {
		if it.d.Event == nil && it.counted {
			e, err := r.c.decode(r.work, r.message(it))
			if err == nil {
				redact.Fields(e) // a client that publishes to NATS directly does not redact
				it.d.Event = e
			} else if it.done == nil {
				it.done = &Result{Err: err}
			}
		}
		if it.d.Event == nil {
			bad = append(bad, it)
			continue
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
		} else {
			it.done = &Result{Err: fmt.Errorf("handler of %s returned %d results for %d deliveries", r.w.Role, len(results), len(batch))}
		}
	}
	r.note(todo)
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
	switch {
	case err == errBuried:
		return r.settleBuried(it)
	case !it.counted: // nothing is known of it yet
		it.done = nil
		return r.keep(it, err)
	case err == nil:
		err = r.store(it)
	}
	err = r.excuse(it, err)
	attempt := it.d.Attempt
	it.verdict, it.why = r.p.judge(err, attempt, r.isPaused()), err
	switch {
	case err != nil && r.work.Err() != nil,
		it.verdict == hold && useless(err) && r.w.Batch > 1: // it would stand in the way of its book
		it.verdict = back
	}
	switch it.verdict {
	case ack:
		if r.outOfTouch(it) {
			if err := r.retract(it); err != nil {
				return r.keep(it, err)
			}
		}
		r.ack(it)
		r.c.vitals.count(r.w.Role, func(v *record) { v.settled(it.stored > 0) })
	case retry:
		log := r.about(it)
		log.Warn().Str(zerolog.ErrorFieldName, Loggable(err)).Int(events.LogDelivery, attempt).Msg("will be tried again")
		r.release(it, r.p.backoff(attempt))
		r.c.vitals.count(r.w.Role, func(v *record) { v.Retried++ })
	case back:
		r.giveBack([]*item{it}, r.apart())
	case hold:
		if it.done.Err != nil {
			it.done = nil // to be handled again; a result that only waits to be stored is kept
		}
		return r.keep(it, err)
	case dead:
		return r.settleDead(it, err)
	}
	return nil
}

// keep notes that an item waits, and returns why.
func (r *run) keep(it *item, why error) error {
	it.verdict = hold
	it.mark(string(hold), why)
	log := r.about(it)
	log.Debug().Str(zerolog.ErrorFieldName, Loggable(why)).Int(events.LogDelivery, it.d.Attempt).Msg("held")
	return why
}

// settleDead gives an item up. It stays with us until its letter is stored.
func (r *run) settleDead(it *item, why error) error {
	dead, err := r.giveUp(it, why)
	if err != nil {
		return r.keep(it, err)
	}
	log := r.about(it)
	if dead {
		log.Error().Str(zerolog.ErrorFieldName, Loggable(why)).Int(events.LogDelivery, r.attemptsMade(it)).Msg("dead letter")
	} else {
		it.verdict, it.why = ack, nil
		log.Info().Msg("its effect is stored: acknowledged")
	}
	r.ack(it)
	r.c.vitals.count(r.w.Role, func(v *record) {
		if dead {
			v.Dead, v.Buried = v.Dead+1, v.Buried+1
		} else {
			v.settled(false)
		}
	})
	if codeOf(why) == events.DeadNewerSchema {
		r.checkNewer(r.work)
	}
	return nil
}

// settleBuried acknowledges an item that has a dead letter, and withdraws the letter where the effect is stored as well.
func (r *run) settleBuried(it *item) error {
	done, err := r.done(it)
	if err == nil && done {
		err = r.c.withdraw(r.work, it.letter)
	}
	if err != nil {
		return r.keep(it, err)
	}
	it.verdict = ack
	r.ack(it)
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

// ack lets go of what is done. It is ours until the ack is on its way: a redelivery that crosses it is absorbed by
// accept, and the server takes the ack for both.
func (r *run) ack(it *item) {
	it.end()
	r.acquit(it)
	r.settled(r.message(it).Ack(), it)
	r.forget(it)
}

// release gives an item back to the server, to be delivered again after a time. The item leaves r.held first: otherwise
// accept would absorb the redelivery, and no goroutine would settle it.
func (r *run) release(it *item, after time.Duration) {
	it.end()
	r.settled(r.forget(it).NakWithDelay(after), it)
}

// giveBack stores that the last delivery of items does not count as an attempt, and releases them.
func (r *run) giveBack(items []*item, after time.Duration) {
	if len(items) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.work), recordWait)
	defer stop()
	if err := r.lookUp(ctx, items); err != nil { // then it counts as an attempt
		r.log.Debug().Err(err).Msg("give back")
	}
	var begun []*item
	for _, it := range items {
		if !it.idle {
			begun = append(begun, it)
		}
	}
	r.idle(begun, true)
	for _, it := range items {
		r.release(it, after)
	}
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
