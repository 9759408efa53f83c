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

// process handles items until each has its final disposition. It retries held items in place. The caller has a slot.
func (r *runner) process(items []*item) {
	for try := 0; len(items) > 0; try++ {
		valid, failed := r.decode(r.prepare(items))
		held, reason := r.finish(failed, nil, nil) // before the handler, which can take long
		r.handle(valid)
		if items, reason = r.finish(valid, held, reason); len(items) == 0 {
			if try > 0 {
				r.addHolding(-1, nil)
			}
			return
		}
		r.setUncounted(items, true)
		if try == 0 {
			r.addHolding(+1, reason)
		} else {
			r.addHolding(0, reason)
		}
		<-r.slots // let another delivery probe meanwhile
		ok := r.waitHold(reason, try)
		r.slots <- struct{}{}
		if !ok {
			r.release(items, r.p.BackoffMin)
			return
		}
	}
}

// prepare loads the number of attempts and the dead letters of redelivered items. It sets an error as the result of
// items that already have a dead letter, have no attempt left, or could not be looked up.
func (r *runner) prepare(items []*item) []*item {
	var waited []*item // another worker may have stored a letter since they arrived
	for _, it := range items {
		if it.attemptKnown && it.result == nil && r.mayBeShared(it) {
			waited = append(waited, it)
		}
	}
	err := r.loadAttempts(r.work, items)
	if err == nil {
		err = r.loadLetters(r.work, waited)
	}
	if err != nil {
		for _, it := range items {
			if !it.attemptKnown || slices.Contains(waited, it) {
				it.attemptKnown, it.result = false, &Result{Err: err}
			}
		}
		return items
	}
	var resumed []*item // their handler runs again, which counts as an attempt
	for _, it := range items {
		if it.uncounted && it.result == nil {
			resumed = append(resumed, it)
		}
	}
	r.setUncounted(resumed, false)
	for _, it := range items {
		switch {
		case it.letterSubject != "":
			it.result = &Result{Err: errHasLetter}
		case it.result == nil && it.d.Attempt > r.p.MaxAttempts:
			it.result = &Result{Err: &exhaustedError{r.p.MaxAttempts}}
		}
	}
	return items
}

// errHasLetter is the result of an item that already has a dead letter.
var errHasLetter = errors.New("already has a dead letter")

// decode fetches and decodes the events of items. Failed are the items without an event.
func (r *runner) decode(items []*item) (valid, failed []*item) {
	valid = items[:0:0]
	for _, it := range items {
		if it.d.Event == nil && it.attemptKnown {
			e, err := r.c.decode(r.work, r.message(it))
			if err == nil {
				redact.Fields(e) // a client that publishes to NATS directly does not redact
				it.d.Event = e
			} else if it.result == nil {
				it.result = &Result{Err: err}
			}
		}
		if it.d.Event == nil {
			failed = append(failed, it)
			continue
		}
		valid = append(valid, it)
	}
	return valid, failed
}

// handle calls the handler for the items without a result. A panic becomes the error of all of them.
func (r *runner) handle(items []*item) {
	pending := make([]*item, 0, len(items))
	batch := make([]*Delivery, 0, len(items))
	for _, it := range items {
		if it.result == nil {
			pending, batch = append(pending, it), append(batch, &it.d)
		}
	}
	if len(pending) == 0 {
		return
	}
	results := r.call(pending, batch)
	for i, it := range pending {
		if i < len(results) {
			it.result = &results[i]
		} else {
			it.result = &Result{Err: fmt.Errorf("handler of %s returned %d results for %d deliveries", r.w.Role, len(results), len(batch))}
		}
	}
	r.recordResults(pending)
}

func (r *runner) call(items []*item, batch []*Delivery) (out []Result) {
	began := time.Now()
	ctx, end := r.handlerContext(items)
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
			r.c.stats.update(r.w.Role, func(v *roleCounters) { v.addCall(time.Since(began)) })
		}
	}()
	return r.w.Handle(ctx, batch)
}

// finish applies the dispositions of items that have a result. It appends the items to hold to held, and returns the
// last reason to hold one.
func (r *runner) finish(items, held []*item, reason error) ([]*item, error) {
	r.loadLettersOfDone(items)
	for _, it := range items {
		if err := r.finishItem(it); err != nil {
			held, reason = append(held, it), err
		}
	}
	return held, reason
}

// finishItem returns an error if the item must be held.
func (r *runner) finishItem(it *item) error {
	err := it.result.Err
	switch {
	case err == errHasLetter:
		return r.finishExistingLetter(it)
	case !it.attemptKnown: // the number of the attempt is still unknown
		it.result = nil
		return r.hold(it, err)
	case err == nil:
		err = r.storeResult(it)
	}
	err = r.assignFault(it, err)
	attempt := it.d.Attempt
	it.disposition, it.err = r.p.decide(err, attempt, r.isPaused()), err
	switch {
	case err != nil && r.work.Err() != nil,
		it.disposition == hold && isUseless(err) && r.w.Batch > 1: // a held item would block its book
		it.disposition = release
	}
	switch it.disposition {
	case ack:
		if err := r.withdrawLetter(it); err != nil {
			return r.hold(it, err)
		}
		r.ack(it)
		r.c.stats.update(r.w.Role, func(v *roleCounters) { v.addSuccess(it.storedEvents > 0) })
	case nak:
		log := r.itemLog(it)
		log.Warn().Str(zerolog.ErrorFieldName, Loggable(err)).Int(events.LogDelivery, attempt).Msg("will be retried")
		r.nak(it, r.p.backoff(attempt))
		r.c.stats.update(r.w.Role, func(v *roleCounters) { v.Retried++ })
	case release:
		r.release([]*item{it}, r.releaseDelay())
	case hold:
		if it.result.Err != nil {
			it.result = nil // call the handler again; without an error the result is kept until it is stored
		}
		return r.hold(it, err)
	case deadLetter:
		return r.finishDeadLetter(it, err)
	}
	return nil
}

// hold marks an item as held and returns the reason.
func (r *runner) hold(it *item, reason error) error {
	it.disposition = hold
	it.addSpanEvent(string(hold), reason)
	log := r.itemLog(it)
	log.Debug().Str(zerolog.ErrorFieldName, Loggable(reason)).Int(events.LogDelivery, it.d.Attempt).Msg("held")
	return reason
}

// finishDeadLetter stores the dead letter of an item and acknowledges it. If that fails, the item is held.
func (r *runner) finishDeadLetter(it *item, reason error) error {
	dead, err := r.storeDeadLetter(it, reason)
	if err != nil {
		return r.hold(it, err)
	}
	log := r.itemLog(it)
	if dead {
		log.Error().Str(zerolog.ErrorFieldName, Loggable(reason)).Int(events.LogDelivery, r.attemptsBegun(it)).Msg("dead letter")
	} else {
		it.disposition, it.err = ack, nil
		log.Info().Msg("acknowledged: the effect of the message is already stored")
	}
	r.ack(it)
	r.c.stats.update(r.w.Role, func(v *roleCounters) {
		if dead {
			v.Dead, v.DeadSinceSuccess = v.Dead+1, v.DeadSinceSuccess+1
		} else {
			v.addSuccess(false)
		}
	})
	if deadCode(reason) == events.DeadNewerSchema {
		r.checkNewerSchema(r.work)
	}
	return nil
}

// finishExistingLetter acknowledges an item that already has a dead letter. It withdraws the letter if the effect of
// the message is stored as well.
func (r *runner) finishExistingLetter(it *item) error {
	done, err := r.effectStored(it)
	if err == nil && done {
		err = r.c.withdraw(r.work, it.letterSubject)
	}
	if err != nil {
		return r.hold(it, err)
	}
	it.disposition = ack
	r.ack(it)
	return nil
}

// storeResult publishes the events of the handler and sends the reply. Call it before the acknowledgement. After an
// error, the next call continues with the event that failed.
func (r *runner) storeResult(it *item) error {
	for ; it.storedEvents < len(it.result.Events); it.storedEvents++ {
		marks := PublishOptions{Repeat: it.d.Repeat || it.inDoubt, Trace: it.d.Trace}
		receipt, msg, err := r.c.publish(r.work, it.result.Events[it.storedEvents], marks)
		if err != nil {
			// After an error without an answer the event may be stored, and the server may forget its id during a hold.
			it.inDoubt = it.inDoubt || !isFull(err)
			return err
		}
		if it.storedEvents == 0 {
			if receipt.Duplicate && replyTo(it.d.Event) != "" { // reply with the first stored answer, which is the one that counts
				first, err := r.c.originalMsg(r.work, it.result.Events[0].Kind(), receipt.Seq)
				if err != nil {
					return err
				}
				if first != nil {
					msg = first
				}
			}
			it.firstMsg = msg
			it.firstMsg.Header.Set(events.HeaderHandle, string(receipt.Handle))
			it.firstReceipt = receipt
		}
	}
	if it.result.AfterStore != nil && it.firstMsg != nil {
		if err := it.result.AfterStore(r.work, it.firstReceipt); err != nil {
			return err
		}
		it.result.AfterStore = nil
	}
	switch to := replyTo(it.d.Event); {
	case to == "":
	case it.result.Reply != nil:
		r.c.reply(&nats.Msg{Subject: to, Data: it.result.Reply, Header: events.SchemaHeader()})
	case it.firstMsg != nil:
		it.firstMsg.Subject = to
		r.c.reply(it.firstMsg)
	}
	return nil
}

func replyTo(e events.Event) string {
	if a, ok := e.(interface{ ReplySubject() string }); ok {
		return a.ReplySubject()
	}
	return ""
}

// ack acknowledges an item. It stays in r.held until the ack is sent. So accept absorbs a redelivery that crosses the
// ack, and the ack also covers that redelivery.
func (r *runner) ack(it *item) {
	it.endSpan()
	r.forgetFaults(it)
	r.logAckError(r.message(it).Ack(), it)
	r.remove(it)
}

// nak returns an item to the server, which redelivers it after a delay. The item leaves r.held first. Otherwise accept
// would absorb the redelivery, and no goroutine would process it.
func (r *runner) nak(it *item, after time.Duration) {
	it.endSpan()
	r.logAckError(r.remove(it).NakWithDelay(after), it)
}

// release records that the newest delivery of each item does not count as an attempt, and returns the items to the
// server.
func (r *runner) release(items []*item, after time.Duration) {
	if len(items) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.work), recordTimeout)
	defer stop()
	if err := r.loadAttempts(ctx, items); err != nil { // then this delivery counts as an attempt
		r.log.Debug().Err(err).Msg("release")
	}
	var started []*item
	for _, it := range items {
		if !it.uncounted {
			started = append(started, it)
		}
	}
	r.setUncounted(started, true)
	for _, it := range items {
		r.nak(it, after)
	}
}

func (r *runner) logAckError(err error, it *item) {
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.log.Debug().Err(err).Uint64(events.LogSeq, it.d.Seq).Msg("acknowledge")
	}
}

// remove removes an item from r.held and returns its newest message.
func (r *runner) remove(it *item) jetstream.Msg {
	r.mu.Lock()
	m := it.msg
	if r.held[it.d.Seq] == it {
		delete(r.held, it.d.Seq)
		r.heldBytes -= len(m.Data()) // all deliveries of a message have the same size
	}
	r.mu.Unlock()
	r.wakeUp()
	return m
}

// message returns the newest delivery of an item.
func (r *runner) message(it *item) jetstream.Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.msg
}
