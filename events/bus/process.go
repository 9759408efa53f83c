package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/redact"
	"debrief/events/streams"
)

// An item is one message in progress. It goes through these steps, see processTogether:
//
//	prepare   loads the number of its attempt, if the message may have been delivered before
//	decode    decodes the event
//	handle    calls the handler, which returns the result
//	finish    stores the events of the result, and applies the disposition (Policy.decide)
//
// An error in prepare or decode is the result of the item, and the handler is skipped. A held item waits and starts again at
// prepare. It keeps a result without an error, so that the handler does not run twice. Every other disposition is final.

// processor handles messages and applies their dispositions.
type processor struct {
	*runner
	flight   *inFlight
	state    *roleState
	attempts *attemptRecords
	queues   *bookQueues

	sharedLetters sync.Map // names of shared dead letters that this process has stored
}

// process handles items until each has its final disposition. It first handles most of them together, and then, in small
// groups, the items that may have crashed a worker. The caller has a slot.
func (p *processor) process(items []*item) {
	together, groups := p.separate(items)
	p.processTogether(together)
	if len(groups) > 0 && p.worker.Warm != nil {
		p.warm(items[0])
	}
	for i, group := range groups {
		isProbe := len(items) == 1 // a paused worker still handles a single message, as a probe
		mustPause := p.state.isPaused() && !isProbe
		if mustPause || p.intake.Err() != nil {
			p.release(slices.Concat(groups[i:]...), p.policy.BackoffMin)
			return
		}
		p.attempts.beginGroup(group)
		p.processTogether(group)
	}
}

// separate returns the items of an ordinary batch, and the small groups of the other items, largest groups first. See groupSize.
func (p *processor) separate(items []*item) (together []*item, groups [][]*item) {
	if p.worker.Batch <= 1 {
		return items, nil
	}
	if err := p.attempts.load(p.work, items); err != nil {
		return items, nil // prepare loads again, and holds the items if that fails too
	}
	bySize := make(map[int][]*item)
	for _, it := range items {
		size := p.groupSize(it)
		bySize[size] = append(bySize[size], it)
	}
	together = bySize[0]
	delete(bySize, 0)
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(bySize))) {
		groups = slices.AppendSeq(groups, slices.Chunk(bySize[size], size))
	}
	return together, groups
}

// warm calls Warm for the book of an item. A panic is only logged: the handler reads the same and counts its own.
func (p *processor) warm(it *item) {
	defer func() {
		if value := recover(); value != nil {
			p.log.Error().Str(zerolog.ErrorFieldName, (&panicError{value}).Loggable()).Bytes("stack", debug.Stack()).Msg("warm-up panicked")
		}
	}()
	_, book, _ := events.ParseSubject(it.msg.Subject())
	p.worker.Warm(p.work, book)
}

// processTogether handles items in one batch, until each has its final disposition. It retries held items in place.
func (p *processor) processTogether(items []*item) {
	for try := 0; len(items) > 0; try++ {
		held, reason := p.tryTogether(items)
		if len(held) == 0 {
			if try > 0 {
				p.state.addHolding(-1, nil)
			}
			return
		}
		if try == 0 { // the held items count as one group, until a try holds none
			p.state.addHolding(+1, reason)
		} else {
			p.state.addHolding(0, reason)
		}
		items = held
		<-p.slots // let another delivery probe meanwhile
		ok := p.state.waitHold(reason, try)
		p.slots <- struct{}{}
		if !ok {
			p.release(held, p.policy.BackoffMin)
			return
		}
	}
}

// tryTogether makes one try at items. It returns the items to hold, whose deliveries do not count as attempts, and the reason.
func (p *processor) tryTogether(items []*item) (held []*item, reason error) {
	p.prepare(items)
	valid, failed := p.decode(items)
	heldEarly, earlyReason := p.finish(failed) // before the handler, which can take long
	p.handle(valid)
	held, reason = p.finish(valid)
	held = append(heldEarly, held...)
	if len(held) > 0 {
		p.attempts.setUncounted(held, true)
	}
	return held, cmp.Or(reason, earlyReason)
}

// prepare loads the number of attempts at redelivered items. It sets an error as the result of items that have no attempt left, or could
// not be looked up.
func (p *processor) prepare(items []*item) {
	if err := p.attempts.load(p.work, items); err != nil {
		for _, it := range items {
			if !it.attemptKnown {
				it.result = &Result{Err: err} // finishItem holds it, and the next prepare loads again
			}
		}
		return
	}
	var resumed []*item // their handler runs again after a hold, and this delivery counts as an attempt from now on
	for _, it := range items {
		if it.uncounted && it.result == nil {
			resumed = append(resumed, it)
		}
	}
	p.attempts.setUncounted(resumed, false)
	for _, it := range items {
		if it.result == nil && p.isExhausted(it) {
			it.result = &Result{Err: &exhaustedError{p.policy.MaxAttempts}}
		}
	}
}

// decode fetches and decodes the events of items. An item without an event is in failed, and its result is the reason.
func (p *processor) decode(items []*item) (valid, failed []*item) {
	for _, it := range items {
		if it.d.Event == nil && it.attemptKnown {
			e, err := p.decodeEvent(p.flight.message(it))
			if err == nil {
				it.d.Event = e
			} else if it.result == nil {
				it.result = &Result{Err: err}
			}
		}
		if it.d.Event == nil {
			failed = append(failed, it)
		} else {
			valid = append(valid, it)
		}
	}
	return valid, failed
}

// decodeEvent returns the event of a message without secrets. It returns erasure.ErrErased for the event of an erased run.
func (p *processor) decodeEvent(m jetstream.Msg) (events.Event, error) {
	e, err := p.conn.decode(p.work, m.Subject(), m.Headers(), m.Data())
	if err != nil {
		return nil, err
	}
	redact.Fields(e) // a client that publishes to NATS directly does not redact
	if err := p.conn.erased.Check(p.work, e); err != nil {
		return nil, err
	}
	return e, nil
}

// handle calls the handler for the items without a result, and sets their results.
func (p *processor) handle(items []*item) {
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
	results := p.call(pending, batch)
	for i, it := range pending {
		if i < len(results) {
			it.result = &results[i]
		} else {
			it.result = &Result{Err: fmt.Errorf("handler of %s returned %d results for %d deliveries", p.worker.Role, len(results), len(batch))}
		}
	}
	if p.state.recordResults(pending) {
		p.releaseQueued(p.policy.BackoffMin) // the server redelivers them to a probe, or after the pause
	}
}

// call calls the handler. A panic becomes the error of every delivery.
func (p *processor) call(items []*item, batch []*Delivery) (out []Result) {
	began := time.Now()
	ctx, end := p.handlerContext(items)
	defer end()
	defer func() {
		if value := recover(); value != nil {
			failed := &panicError{value}
			zerolog.Ctx(ctx).Error().Str(zerolog.ErrorFieldName, failed.Loggable()).Bytes("stack", debug.Stack()).Msg("handler panicked")
			p.conn.Stats.update(p.worker.Role, func(v *roleCounters) {
				v.Panics, v.LastPanic, v.LastPanicReason = v.Panics+1, time.Now(), failed.Loggable()
			})
			out = make([]Result, len(batch))
			for i := range out {
				out[i].Err = failed
			}
		}
		if slices.ContainsFunc(out, func(x Result) bool { return x.Err == nil }) {
			p.conn.Stats.update(p.worker.Role, func(v *roleCounters) { v.addCall(time.Since(began)) })
		}
	}()
	return p.worker.Handle(ctx, batch)
}

// finish applies the dispositions of items that have a result. It returns the items to hold, and the reason of the last of them.
func (p *processor) finish(items []*item) (held []*item, reason error) {
	for _, it := range items {
		if err := p.finishItem(it); err != nil {
			held, reason = append(held, it), err
		}
	}
	return held, reason
}

// finishItem applies the disposition of an item. It returns the reason if the item must be held, else nil.
func (p *processor) finishItem(it *item) error {
	err := it.result.Err
	switch {
	case !it.attemptKnown: // the records could not be read
		it.result = nil
		return p.hold(it, err)
	case err == nil:
		err = p.storeResult(it)
	}
	err = p.state.assignFault(it, err)
	attempt := it.d.Attempt
	it.disposition, it.err = p.decide(err, attempt), err
	switch it.disposition {
	case ack:
		it.err = nil // the policy acknowledges the event of an erased run, whose error is ErrErased
		p.ack(it)
		p.conn.Stats.update(p.worker.Role, func(v *roleCounters) { v.addSuccess(it.storedEvents > 0) })
	case nak:
		log := p.flight.itemLog(it)
		log.Warn().Str(zerolog.ErrorFieldName, Loggable(err)).Int(events.LogDelivery, attempt).Msg("will be retried")
		p.nak(it, p.policy.backoff(attempt))
		p.conn.Stats.update(p.worker.Role, func(v *roleCounters) { v.Retried++ })
	case release:
		delay := p.state.releaseDelay()
		if isDeferred(err) {
			delay = p.policy.BackoffMin
		}
		p.release([]*item{it}, delay)
	case hold:
		if it.result.Err != nil {
			it.result = nil // call the handler again; without an error the result is kept until it is stored
		}
		return p.hold(it, err)
	case deadLetter:
		return p.finishDeadLetter(it, err)
	}
	return nil
}

// decide returns the disposition of the failure policy, except that it releases a message in two cases in which the policy does not.
func (p *processor) decide(err error, attempt int) disposition {
	if err != nil && p.work.Err() != nil { // the stop may have caused the error
		return release
	}
	d := p.policy.decide(err, attempt, p.state.isPaused())
	if d == hold && isUseless(err) && p.worker.Batch > 1 { // a held message would block its book
		return release
	}
	return d
}

// hold marks an item as held and returns the reason.
func (p *processor) hold(it *item, reason error) error {
	it.disposition = hold
	it.addSpanEvent(string(hold), reason)
	log := p.flight.itemLog(it)
	log.Debug().Str(zerolog.ErrorFieldName, Loggable(reason)).Int(events.LogDelivery, it.d.Attempt).Msg("held")
	return reason
}

// finishDeadLetter stores the dead letter of an item and acknowledges it. If that fails, the item is held.
func (p *processor) finishDeadLetter(it *item, reason error) error {
	stored, err := p.storeLetter(it, reason) // stores none if the effect of the message is stored
	if err != nil {
		return p.hold(it, err)
	}
	log := p.flight.itemLog(it)
	count := func(v *roleCounters) { v.Dead, v.DeadSinceSuccess = v.Dead+1, v.DeadSinceSuccess+1 }
	switch {
	case !stored:
		it.disposition, it.err = ack, nil
		log.Info().Msg("acknowledged: the effect of the message is already stored")
		count = func(v *roleCounters) { v.addSuccess(false) }
	case p.rememberShared(reason): // messages with one cause can share a letter, and only the first of them counts
		log.Debug().Str(zerolog.ErrorFieldName, Loggable(reason)).Msg("shared dead letter")
		count = func(*roleCounters) {}
	default:
		log.Error().Str(zerolog.ErrorFieldName, Loggable(reason)).Int(events.LogDelivery, p.attemptsBegun(it)).Msg("dead letter")
	}
	p.ack(it)
	p.conn.Stats.update(p.worker.Role, count)
	return nil
}

// storeResult publishes the events of the handler and sends the reply. It is called before the acknowledgement. After an
// error, the next call continues with the event that failed.
func (p *processor) storeResult(it *item) error {
	target := replyTargetOf(p.flight.message(it).Headers())
	for it.storedEvents < len(it.result.Events) {
		if err := p.storeNextEvent(it, target); err != nil {
			return err
		}
		it.storedEvents++
	}
	if it.result.AfterStore != nil && it.firstMsg != nil {
		if err := it.result.AfterStore(p.work, it.firstReceipt); err != nil {
			return err
		}
		it.result.AfterStore = nil
	}
	return p.replyResult(target, it)
}

// storeNextEvent publishes the next event of a result. The message of the first event is also the reply.
func (p *processor) storeNextEvent(it *item, target replyTarget) error {
	e := it.result.Events[it.storedEvents]
	options := PublishOptions{Repeat: it.d.Repeat || it.inDoubt, Trace: it.d.Trace}
	if it.result.Forward {
		options.ReplyTo, options.ReplyJSON = target.subject, target.asJSON
	}
	receipt, msg, err := p.conn.publisher.publish(p.work, e, options)
	if err != nil {
		// After an error without an answer the event may be stored, and the server may forget its id during a hold.
		it.inDoubt = it.inDoubt || !isFull(err)
		return err
	}
	if it.storedEvents > 0 {
		return nil
	}
	if receipt.Duplicate && target.subject != "" { // an earlier attempt has stored another answer, and only that one counts
		first, err := p.conn.storedMsg(p.work, streams.OfKind(e.Kind()), receipt.Seq)
		if err != nil {
			return err
		}
		if first != nil {
			msg = &nats.Msg{Subject: first.Subject, Header: first.Header, Data: first.Data}
		}
	}
	msg.Header.Set(events.HeaderHandle, string(receipt.Handle))
	it.firstMsg, it.firstReceipt = msg, receipt
	return nil
}

// ack acknowledges an item. The item stays in flight until the ack is sent: if the server redelivers the message just before,
// inFlight.add finds the item, and nothing is processed twice.
func (p *processor) ack(it *item) {
	it.endSpan()
	p.state.forgetFailures(it)
	p.logAckError(p.flight.message(it).Ack(), it)
	p.flight.remove(it)
}

// nak returns an item to the server, which redelivers it after a delay. The item is removed from flight before that:
// otherwise inFlight.add would find it there, and no goroutine would process the redelivery.
func (p *processor) nak(it *item, after time.Duration) {
	it.endSpan()
	p.logAckError(p.flight.remove(it).NakWithDelay(after), it)
}

// release records that the newest delivery of each item does not count as an attempt, and returns the items to the
// server.
func (p *processor) release(items []*item, after time.Duration) {
	if len(items) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(p.work), recordTimeout)
	defer stop()
	if err := p.attempts.load(ctx, items); err != nil { // then this delivery counts as an attempt
		p.log.Debug().Err(err).Msg("release")
	}
	var counted []*item
	for _, it := range items {
		if !it.uncounted {
			counted = append(counted, it)
		}
	}
	p.attempts.setUncounted(counted, true)
	for _, it := range items {
		p.nak(it, after)
	}
}

func (p *processor) logAckError(err error, it *item) {
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		p.log.Debug().Err(err).Uint64(events.LogSeq, it.d.Seq).Msg("acknowledge")
	}
}

// releaseQueued releases the queued messages that are in no batch yet.
func (p *processor) releaseQueued(after time.Duration) {
	p.release(p.queues.takeAll(), after)
}
