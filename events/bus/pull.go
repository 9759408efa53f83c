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
	// pullWait is how long one pull request waits for work. A server that is gone without a word is noticed after as
	// long; a stop does not wait for it.
	pullWait = 2 * time.Second
	// drainWait bounds the wait for what may still arrive when a pull is closed, when the server does not answer.
	drainWait = time.Second
	// maxHeld bounds what a batching worker holds, over all books.
	maxHeld = 4096
	// maxHeldBytes bounds the same by size: when that much is held no more is asked for, and a batch may be on its way.
	maxHeldBytes = 32 << 20
)

// room is how many messages a worker may take; open says that a pull may stay open. A worker that takes one at a time
// asks when it has a free slot, so that nothing waits behind a busy worker while another one is free. A batching worker
// asks ahead, a batch at a time.
func (r *run) room() (n int, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	switch {
	case s.probing():
		// A worker that holds work keeps it and looks at one more message in a while: if that goes well, what is held
		// again after it is at fault itself and blocks nobody any longer.
		most := max(r.w.Slots, r.w.Batch)
		if s.paused {
			most = max(most, r.p.MaxAckPending/2) // a low limit would let a few bad messages block the good ones behind
		}
		if s.holding == 0 && len(r.held) > 0 || len(r.held) >= most || r.heldBytes >= maxHeldBytes || time.Now().Before(s.probeAt) {
			return 0, false
		}
		return 1, false
	case r.w.Batch > 1:
		if maxHeld-len(r.held) < r.w.Batch || r.heldBytes >= maxHeldBytes { // little pulls are not worth it
			return 0, true
		}
		return r.w.Batch, true
	case len(r.held) >= r.w.Slots:
		return 0, true
	}
	return 1, true
}

// pull takes work while there is room for it, until the stop. Then it gives back what is not begun.
func (r *run) pull() {
	failed := 0 // how often in a row; above 0 the consumer may be gone
	for r.intake.Err() == nil {
		if failed > 0 {
			cons, restored, err := r.c.bind(r.intake, r.w.Role)
			if r.intake.Err() != nil {
				break
			}
			r.lost(err)
			r.c.heard(err)
			if err != nil {
				failed++
				r.rest(min(time.Duration(failed)*100*time.Millisecond, 2*time.Second))
				continue
			}
			r.cons, r.restored = cons, restored
		}
		n, open := r.room()
		if n == 0 {
			r.sleep(r.p.Hold)
			continue
		}
		err := r.take(n, !open)
		if err == nil || r.intake.Err() != nil {
			failed = 0
			continue
		}
		failed++
		r.log.Debug().Err(err).Msg("pull")
		r.rest(100 * time.Millisecond)
	}
	close(r.drained)
	r.giveBack(r.late, 0)
	r.giveBackQueued(0)
}

// take pulls until the worker may not, or has n, or the pull fails. What the server had sent by then is accepted too:
// nothing is left to its ack wait. A probe is a pull that was meant for a worker that may take one.
func (r *run) take(n int, probe bool) error {
	opts := []jetstream.PullMessagesOpt{jetstream.PullMaxMessages(min(n, r.w.Batch)), jetstream.PullExpiry(pullWait)}
	if r.w.Batch > 1 {
		// Closing a pull makes the server deliver again what is on its way. So this one ends by itself.
		opts = append(opts, jetstream.StopAfter(n))
	}
	pulls, err := r.cons.Messages(opts...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.pulls = pulls
	if r.state.probing() && !probe { // changed just now
		pulls.Drain()
	}
	r.mu.Unlock()
	defer context.AfterFunc(r.intake, pulls.Drain)()

	var back []*item
	accept := func(m jetstream.Msg) {
		if r.w.Batch == 1 || probe || !r.isPaused() {
			r.accept(m)
		} else if it := r.item(m); it != nil { // a paused worker tries one at a time
			back = append(back, it)
		}
	}
	for err == nil {
		var m jetstream.Msg
		if m, err = r.next(pulls); err != nil {
			break
		}
		accept(m)
		for r.intake.Err() == nil {
			n, open := r.room()
			if !open {
				pulls.Drain() // Next ends when it has returned what is on its way
			}
			if n > 0 || !open || r.w.Batch > 1 {
				break
			}
			r.sleep(r.p.Hold)
		}
	}
	r.mu.Lock()
	r.pulls = nil
	r.mu.Unlock()
	pulls.Drain()
	wait := drainWait
	if !r.c.nc.IsConnected() {
		wait = 10 * time.Millisecond // only what is here already
	}
	for {
		m, err := pulls.Next(jetstream.NextMaxWait(wait))
		if err != nil {
			break
		}
		accept(m)
	}
	r.giveBack(back, r.p.BackoffMax)
	if errors.Is(err, jetstream.ErrMsgIteratorClosed) && !r.c.nc.IsClosed() {
		return nil
	}
	return err
}

// next is the next message. The client's Next asks the server only when it begins, and not while the client is still
// busy with sending the request before (nats.go 1.55, checkPending). A server in this process can answer that request
// sooner, about once in 10,000 messages; Next then waits for what nobody asked for, until heartbeats are missed 2 s
// later. To call it again asks.
func (r *run) next(pulls jetstream.MessagesContext) (jetstream.Msg, error) {
	if r.w.Batch < 16 { // half a batch is asked for while the other half is on its way, and its arrival is a call
		if m, err := pulls.Next(jetstream.NextMaxWait(20 * time.Millisecond)); !errors.Is(err, nats.ErrTimeout) {
			return m, err
		}
	}
	for {
		ctx, stop := context.WithTimeout(r.intake, 2*pullWait)
		m, err := pulls.Next(jetstream.NextContext(ctx))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || r.intake.Err() != nil {
			return m, err
		}
		if r.c.nc.IsConnected() { // else nobody answers, and nobody looks for signs of life
			r.answered()
		}
	}
}

// sleep waits for room or for the time to pass, whichever is first, but not past the stop.
func (r *run) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.intake.Done():
	case <-t.C:
	case <-r.wake:
	}
}

// rest waits for the time to pass; false says that the worker is stopping.
func (r *run) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.intake.Done():
		return false
	case <-t.C:
		return true
	}
}

func (r *run) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// item returns the item of a delivered message, or nil if the message has no metadata.
func (r *run) item(m jetstream.Msg) *item {
	md, err := m.Metadata()
	if err != nil {
		r.log.Error().Err(err).Str("subject", m.Subject()).Msg("message without metadata")
		return nil
	}
	it := &item{msg: m, delivered: int(md.NumDelivered), number: int(md.NumDelivered), taken: time.Now(), d: Delivery{
		Seq: md.Sequence.Stream, Attempt: int(md.NumDelivered), Stored: md.Timestamp,
		Repeat: m.Headers().Get(events.HeaderRepeat) != "" || md.NumDelivered > 1 || md.Sequence.Stream <= r.restored,
		Trace:  m.Headers().Get(events.HeaderTrace),
	}}
	it.counted = !it.d.Repeat // nothing is stored about it
	if events.TraceID(it.d.Trace) == "" {
		it.d.Trace = ""
	}
	return it
}

// accept takes one message into work.
func (r *run) accept(m jetstream.Msg) {
	it := r.item(m)
	if it == nil {
		return
	}
	r.mu.Lock()
	if old := r.held[it.d.Seq]; old != nil {
		// Ours already: the server lost our signs of life, as after its restart. The new delivery is the one to settle.
		old.msg, old.delivered, old.again = m, it.delivered, true
		r.mu.Unlock()
		old.mark("delivered again", nil)
		r.busy.Go(func() { r.record([]*item{old}) })
		return
	}
	r.begin(it)
	r.held[it.d.Seq] = it
	r.heldBytes += len(m.Data())
	r.state.probeAt = time.Now().Add(r.p.Probe) // matters only while probing
	again := r.state.denied != nil
	r.mu.Unlock()
	if again {
		r.denied(nil)
	}
	r.c.vitals.count(r.w.Role, func(v *record) { v.Taken = time.Now() })

	switch {
	case r.intake.Err() != nil:
		// Not given back yet: the server would deliver it again at once, to our own pull while that is open.
		r.late = append(r.late, it)
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

// queue is what waits for a book.
type queue struct {
	items  []*item
	urgent bool          // somebody waits for an answer to one of them
	full   chan struct{} // or urgent
}

// enqueue adds to what waits for a book, and starts on the book if nobody is.
func (r *run) enqueue(it *item) {
	kind, book, _ := events.ParseSubject(it.msg.Subject()) // what names no book queues under none
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[book]
	if q == nil {
		q = &queue{full: make(chan struct{}, 1)}
		r.queues[book] = q
		r.busy.Go(func() { r.drainBook(book, q) })
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

// drainBook hands over what waits for a book, batch after batch, until nothing came for a while. The first batch goes
// at once; after that a batch waits until it is full or the linger is over, because load makes larger batches cheaper.
// An edit waits for nothing: somebody waits for it.
func (r *run) drainBook(book playbook.Book, q *queue) {
	for {
		r.slots <- struct{}{}
		began := time.Now()
		batch := r.takeBatch(q)
		if r.intake.Err() == nil {
			r.process(batch)
		} else { // not begun: somebody else's, soon
			<-r.drained
			r.giveBack(batch, 0)
		}
		<-r.slots
		r.linger(q, r.p.Linger-time.Since(began))
		if r.closeEmpty(book, q) {
			return
		}
	}
}

// takeBatch takes the next batch. It may be empty: a pause and a stop give back what waits.
func (r *run) takeBatch(q *queue) []*item {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(q.items), r.w.Batch)
	batch := q.items[:n:n]
	if q.items = q.items[n:]; len(q.items) == 0 {
		q.items, q.urgent = nil, false
	}
	select {
	case <-q.full: // was about the batch just taken
	default:
	}
	return batch
}

func (r *run) linger(q *queue, d time.Duration) {
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

// closeEmpty forgets the queue of a book for which nothing waits. enqueue looks under the same lock, so nothing is put
// into a forgotten queue.
func (r *run) closeEmpty(book playbook.Book, q *queue) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(q.items) > 0 {
		return false
	}
	delete(r.queues, book)
	return true
}

// giveBackQueued gives back what waits for its book and is in no batch yet.
func (r *run) giveBackQueued(after time.Duration) {
	r.mu.Lock()
	var waiting []*item
	for _, q := range r.queues {
		waiting = append(waiting, q.items...)
		q.items = nil
	}
	r.mu.Unlock()
	r.giveBack(waiting, after)
}
