package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

const (
	// pullExpiry is how long one pull request waits for messages. The loss of a silent server is noticed after this
	// time. A stop does not wait for it.
	pullExpiry = 2 * time.Second
	// drainTimeout bounds the wait for messages in transit after a pull is closed, if the server does not answer.
	drainTimeout = time.Second
	// maxHeld bounds the messages that a batching worker holds, over all books.
	maxHeld = 4096
	// maxHeldBytes is the size of held messages at which a worker stops pulling. A batch in transit may exceed it.
	maxHeldBytes = 32 << 20
)

// capacity returns how many messages the worker may pull now, and whether a pull may stay open. With Batch 1 the worker
// pulls only for a free slot, so that no message waits for a busy worker while another one is free. A batching worker
// pulls one batch ahead.
func (r *runner) capacity() (n int, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	switch {
	case s.probing():
		// A worker that holds messages pulls one more at each probe interval. If that one succeeds, a held message that
		// fails again is itself at fault, and no longer blocks the others.
		limit := max(r.w.Slots, r.w.Batch)
		if s.paused {
			limit = max(limit, r.p.MaxAckPending/2) // a low limit would let a few bad messages block the good ones
		}
		if s.holding == 0 && len(r.held) > 0 || len(r.held) >= limit || r.heldBytes >= maxHeldBytes || time.Now().Before(s.probeAt) {
			return 0, false
		}
		return 1, false
	case r.w.Batch > 1:
		if maxHeld-len(r.held) < r.w.Batch || r.heldBytes >= maxHeldBytes { // a small pull is not worth a request
			return 0, true
		}
		return r.w.Batch, true
	case len(r.held) >= r.w.Slots:
		return 0, true
	}
	return 1, true
}

// pull pulls messages while there is capacity, until the stop. Then it releases the messages that were not started.
func (r *runner) pull() {
	failed := 0 // failures in a row; above 0 the consumer may not exist any more
	for r.intake.Err() == nil {
		if failed > 0 {
			cons, restored, err := r.c.bindConsumer(r.intake, r.w.Role)
			if r.intake.Err() != nil {
				break
			}
			r.setConsumerErr(err)
			r.c.recordAnswer(err)
			if err != nil {
				failed++
				r.wait(min(time.Duration(failed)*100*time.Millisecond, 2*time.Second))
				continue
			}
			r.cons, r.restored = cons, restored
		}
		n, open := r.capacity()
		if n == 0 {
			r.waitForCapacity(r.p.HoldInterval)
			continue
		}
		err := r.pullBatch(n, !open)
		if err == nil || r.intake.Err() != nil {
			failed = 0
			continue
		}
		failed++
		r.log.Debug().Err(err).Msg("pull")
		r.wait(100 * time.Millisecond)
	}
	close(r.drained)
	r.release(r.afterStop, 0)
	r.releaseQueued(0)
}

// pullBatch pulls up to n messages, until the capacity is used or the pull fails. It also accepts the messages in
// transit, so that none waits for its ack wait. Probe means that the pull is for a single message of a probing worker.
func (r *runner) pullBatch(n int, probe bool) error {
	opts := []jetstream.PullMessagesOpt{jetstream.PullMaxMessages(min(n, r.w.Batch)), jetstream.PullExpiry(pullExpiry)}
	if r.w.Batch > 1 {
		// If a pull is closed, the server redelivers the messages in transit. With StopAfter it ends without that.
		opts = append(opts, jetstream.StopAfter(n))
	}
	pulls, err := r.cons.Messages(opts...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.openPull = pulls
	if r.state.probing() && !probe { // the state has just changed
		pulls.Drain()
	}
	r.mu.Unlock()
	defer context.AfterFunc(r.intake, pulls.Drain)()

	var rejected []*item
	accept := func(m jetstream.Msg) {
		if r.w.Batch == 1 || probe || !r.isPaused() {
			r.accept(m)
		} else if it := r.newItem(m); it != nil { // a paused worker tries one message at a time
			rejected = append(rejected, it)
		}
	}
	for err == nil {
		var m jetstream.Msg
		if m, err = r.next(pulls); err != nil {
			break
		}
		accept(m)
		for r.intake.Err() == nil {
			n, open := r.capacity()
			if !open {
				pulls.Drain() // Next still returns the messages in transit
			}
			if n > 0 || !open || r.w.Batch > 1 {
				break
			}
			r.waitForCapacity(r.p.HoldInterval)
		}
	}
	r.mu.Lock()
	r.openPull = nil
	r.mu.Unlock()
	pulls.Drain()
	drainWait := drainTimeout
	if !r.c.nc.IsConnected() {
		drainWait = 10 * time.Millisecond // only messages that have already arrived
	}
	for {
		m, err := pulls.Next(jetstream.NextMaxWait(drainWait))
		if err != nil {
			break
		}
		accept(m)
	}
	r.release(rejected, r.p.BackoffMax)
	if errors.Is(err, jetstream.ErrMsgIteratorClosed) && !r.c.nc.IsClosed() {
		return nil
	}
	return err
}

// next returns the next message. The client requests messages only when Next starts, and not while it is still sending
// the previous request (nats.go 1.55, checkPending). A server in this process can answer that request sooner, about
// once in 10,000 messages. Then Next waits without a request, until heartbeats are missed 2 s later. So next calls Next
// again after a short time, which makes the client send the request.
func (r *runner) next(pulls jetstream.MessagesContext) (jetstream.Msg, error) {
	// With a larger batch, the client requests the second half while the first arrives, and each arrival ends a Next.
	if r.w.Batch < 16 {
		if m, err := pulls.Next(jetstream.NextMaxWait(20 * time.Millisecond)); !errors.Is(err, nats.ErrTimeout) {
			return m, err
		}
	}
	for {
		ctx, stop := context.WithTimeout(r.intake, 2*pullExpiry)
		m, err := pulls.Next(jetstream.NextContext(ctx))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || r.intake.Err() != nil {
			return m, err
		}
		if r.c.nc.IsConnected() { // without a connection the server cannot have taken the pull
			r.clearDeniedPull()
		}
	}
}

// waitForCapacity waits until there may be capacity, d has passed, or the worker stops.
func (r *runner) waitForCapacity(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.intake.Done():
	case <-t.C:
	case <-r.wake:
	}
}

// wait waits for d. It returns false if the worker stops first.
func (r *runner) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.intake.Done():
		return false
	case <-t.C:
		return true
	}
}

func (r *runner) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// newItem returns the item of a delivered message, or nil if the message has no metadata.
func (r *runner) newItem(m jetstream.Msg) *item {
	md, err := m.Metadata()
	if err != nil {
		r.log.Error().Err(err).Str("subject", m.Subject()).Msg("message without metadata")
		return nil
	}
	it := &item{msg: m, latestNumber: int(md.NumDelivered), deliveryNumber: int(md.NumDelivered), received: time.Now(), reconnects: r.c.nc.Stats().Reconnects, d: Delivery{
		Seq: md.Sequence.Stream, Attempt: int(md.NumDelivered), Stored: md.Timestamp,
		Repeat: m.Headers().Get(events.HeaderRepeat) != "" || md.NumDelivered > 1 || md.Sequence.Stream <= r.restored,
		Trace:  m.Headers().Get(events.HeaderTrace),
	}}
	it.attemptKnown = !it.d.Repeat // a first delivery has no record
	if events.TraceID(it.d.Trace) == "" {
		it.d.Trace = ""
	}
	return it
}

// accept starts work on a delivered message.
func (r *runner) accept(m jetstream.Msg) {
	it := r.newItem(m)
	if it == nil {
		return
	}
	r.mu.Lock()
	if old := r.held[it.d.Seq]; old != nil {
		// The worker still holds the message, but the server lost its signs of life, for example in a restart of the
		// server. From now on only the new delivery can be acknowledged.
		old.msg, old.latestNumber, old.redelivered = m, it.latestNumber, true
		r.mu.Unlock()
		old.addSpanEvent("redelivered", nil)
		r.busy.Go(func() { r.storeRecords([]*item{old}) })
		return
	}
	r.startSpan(it)
	r.held[it.d.Seq] = it
	r.heldBytes += len(m.Data())
	r.state.probeAt = time.Now().Add(r.p.ProbeInterval) // read only while probing
	clearDenied := r.state.deniedErr != nil
	r.mu.Unlock()
	if clearDenied {
		r.setDenied(nil)
	}
	r.c.stats.update(r.w.Role, func(v *roleCounters) { v.LastDelivery = time.Now() })

	switch {
	case r.intake.Err() != nil:
		// Released only after the pull is closed. Otherwise the server would redeliver the message to this pull at
		// once.
		r.afterStop = append(r.afterStop, it)
	case r.w.Batch > 1:
		r.enqueue(it)
	default:
		r.busy.Go(func() {
			r.slots <- struct{}{}
			r.process([]*item{it})
			<-r.slots
		})
	}
}

// bookQueue holds the messages of a book that are in no batch yet.
type bookQueue struct {
	items  []*item
	urgent bool          // a requester waits for one of them
	full   chan struct{} // signals that the queue has a full batch or is urgent
}

// enqueue adds an item to the queue of its book, and starts processBook if it does not run yet.
func (r *runner) enqueue(it *item) {
	kind, book, _ := events.ParseSubject(it.msg.Subject()) // an invalid subject has the queue of the empty book
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[book]
	if q == nil {
		q = &bookQueue{full: make(chan struct{}, 1)}
		r.queues[book] = q
		r.busy.Go(func() { r.processBook(book, q) })
	}
	q.items = append(q.items, it)
	q.urgent = q.urgent || kind == events.KindEdit
	if len(q.items) == r.w.Batch || q.urgent {
		select {
		case q.full <- struct{}{}:
		default:
		}
	}
}

// processBook processes the queue of a book, batch after batch, until the queue is empty after the linger time. The
// first batch starts at once. A later batch waits until it is full or the linger time has passed, because under load
// larger batches are cheaper. An edit does not wait, because its requester waits for the reply.
func (r *runner) processBook(book playbook.Book, q *bookQueue) {
	for {
		r.slots <- struct{}{}
		started := time.Now()
		batch := r.dequeue(q)
		if r.intake.Err() == nil {
			r.process(batch)
		} else { // not started: another worker gets them
			<-r.drained
			r.release(batch, 0)
		}
		<-r.slots
		r.linger(q, r.p.Linger-time.Since(started))
		if r.removeIfEmpty(book, q) {
			return
		}
	}
}

// dequeue returns the next batch. It is empty if a pause or a stop has released the queue.
func (r *runner) dequeue(q *bookQueue) []*item {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(q.items), r.w.Batch)
	batch := q.items[:n:n]
	if q.items = q.items[n:]; len(q.items) == 0 {
		q.items, q.urgent = nil, false
	}
	select {
	case <-q.full: // the signal was for this batch
	default:
	}
	return batch
}

func (r *runner) linger(q *bookQueue, d time.Duration) {
	r.mu.Lock()
	full := len(q.items) >= r.w.Batch || q.urgent
	r.mu.Unlock()
	if full || d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.full:
	case <-r.intake.Done():
	}
}

// removeIfEmpty removes the queue of a book if it is empty. It holds the same lock as enqueue, so that no item is added
// to a removed queue.
func (r *runner) removeIfEmpty(book playbook.Book, q *bookQueue) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(q.items) > 0 {
		return false
	}
	delete(r.queues, book)
	return true
}

// releaseQueued releases the queued messages that are in no batch yet.
func (r *runner) releaseQueued(after time.Duration) {
	r.mu.Lock()
	var waiting []*item
	for _, q := range r.queues {
		waiting = append(waiting, q.items...)
		q.items = nil
	}
	r.mu.Unlock()
	r.release(waiting, after)
}
