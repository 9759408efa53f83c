package bus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

const (
	// pullExpiry is how long one pull request waits for messages. The loss of a silent server is noticed after this
	// time. A stop does not wait for it.
	pullExpiry = 2 * time.Second
	// maxStatus is the number of status messages, such as heartbeats, for which the client has room besides the messages of a pull.
	maxStatus = 16
	// drainTimeout bounds the wait for messages in transit after a pull is closed, if the server does not answer.
	drainTimeout = time.Second
	// forwardWait is the longest time that a message waits, so that others are forwarded together with it.
	forwardWait = time.Millisecond
	// maxInProgress bounds the messages that a batching worker has, over all books.
	maxInProgress = 4096
	// maxBytesInProgress is the size of the messages in progress at which a worker stops pulling. A batch in transit may exceed it.
	maxBytesInProgress = 32 << 20
	// pullPause is the wait after a failed pull. After a failure to open the consumer the wait grows by it with each failure, up to
	// maxPullPause.
	pullPause    = 100 * time.Millisecond
	maxPullPause = 2 * time.Second
	// drainArrived is the wait for messages that have already arrived when the connection is lost.
	drainArrived = 10 * time.Millisecond
)

// puller pulls messages of a role and starts work on them.
type puller struct {
	*runner
	flight    *inFlight
	state     *roleState
	attempts  *attemptRecords
	queues    *bookQueues
	processor *processor
	peers     *peers // nil if the worker takes no batches

	cons     jetstream.Consumer // only the goroutine of run uses it
	restored atomic.Uint64      // the last sequence that came from a backup; only the goroutine of run changes it

	mu        sync.Mutex // guards afterStop
	afterStop []*item    // received after the stop
}

// capacity returns how many messages the worker may pull now, and whether it is probing. With Batch 1 the worker pulls only for free
// slots, so that no message waits for a busy worker while another one is free. A batching worker pulls one batch ahead. A probing worker
// pulls one message at each probe interval.
func (p *puller) capacity() (n int, probing bool) {
	inProgress, bytes := p.flight.size() // including the messages on hold
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	s := &p.state.workerState
	switch {
	case s.probing():
		// The probe is a new message, beside those on hold. If it succeeds while a message on hold fails again, then that message is itself at
		// fault, and it no longer blocks the others.
		limit := max(p.worker.Slots, p.worker.Batch)
		if s.paused {
			limit = max(limit, p.policy.MaxAckPending/2) // a low limit would let a few bad messages block the good ones
		}
		isAtLimit := inProgress >= limit || bytes >= maxBytesInProgress
		isTooEarly := time.Now().Before(s.probeAt)
		isBusy := inProgress > 0 && s.holding == 0 // none is on hold, so their results will come: wait for them
		if isAtLimit || isTooEarly || isBusy {
			return 0, true
		}
		return 1, true
	case p.worker.Batch == 1:
		return max(p.worker.Slots-inProgress, 0), false
	case maxInProgress-inProgress < p.worker.Batch || bytes >= maxBytesInProgress: // a pull of less than a batch is not worth a request
		return 0, false
	}
	return p.worker.Batch, false
}

// run pulls messages while there is capacity, until the stop. Then it releases the messages that were not started.
func (p *puller) run() {
	failed := 0 // failures in a row; after a failure the consumer may not exist any more
	for p.intake.Err() == nil {
		if failed > 0 && !p.bind() {
			failed++
			p.wait(min(time.Duration(failed)*pullPause, maxPullPause))
			continue
		}
		n, probing := p.capacity()
		if n == 0 {
			p.waitForCapacity(p.policy.HoldInterval)
			continue
		}
		err := p.pullBatch(n, probing)
		if err == nil || p.intake.Err() != nil {
			failed = 0
			continue
		}
		failed++
		p.log.Debug().Err(err).Msg("pull")
		p.wait(pullPause)
	}
	if p.peers != nil {
		p.peers.leave()
	}
	close(p.drained)
	p.processor.release(p.afterStop, 0)
	p.processor.releaseQueued(0)
}

// bind opens the consumer of the role again. It reports whether it has.
func (p *puller) bind() bool {
	cons, restored, err := p.conn.Consumers.bind(p.intake, p.worker.Role)
	if p.intake.Err() != nil { // the stop may have caused the error
		return false
	}
	p.state.setConsumerErr(err)
	p.conn.publisher.recordAnswer(err)
	if err != nil {
		return false
	}
	p.cons = cons
	p.restored.Store(restored)
	return true
}

// pullBatch pulls up to n messages, until the capacity is used or the pull fails. It also accepts the messages in
// transit, so that none waits for its ack wait. With probe set the pull is for a single message of a probing worker.
func (p *puller) pullBatch(n int, probe bool) error {
	// StopAfter ends the pull after n messages. If the pull were closed before, the server would redeliver the messages in transit.
	// The client has room for PullMaxMessages messages, including status messages of the server, and drops further ones.
	pulls, err := p.cons.Messages(jetstream.PullMaxMessages(n+maxStatus), jetstream.StopAfter(n), jetstream.PullExpiry(pullExpiry))
	if err != nil {
		return err
	}
	p.state.setOpenPull(pulls, probe)
	defer context.AfterFunc(p.intake, pulls.Drain)()

	d := &dispatcher{puller: p, requested: n, probe: probe, outgoing: make(map[string][]jetstream.Msg)}
	for err == nil {
		var m jetstream.Msg
		m, err = p.next(pulls, len(d.outgoing) > 0)
		switch {
		case err != nil: // ends the loop
		case m == nil:
			d.forward()
		default:
			d.dispatch(m)
			if _, probing := p.capacity(); probing {
				pulls.Drain() // Next still returns the messages in transit
			}
		}
	}
	d.forward()
	p.state.setOpenPull(nil, probe)
	p.drain(pulls, d.dispatch)
	d.forward()
	p.processor.release(d.rejected, p.policy.BackoffMax)
	if errors.Is(err, jetstream.ErrMsgIteratorClosed) && !p.conn.nc.IsClosed() {
		return nil
	}
	return err
}

// dispatcher accepts, forwards or rejects the messages of one pull.
type dispatcher struct {
	*puller
	requested int                        // the largest number of messages of the pull
	probe     bool                       // the pull is for one message, the next probe
	outgoing  map[string][]jetstream.Msg // messages to forward, by the process that owns their books
	rejected  []*item                    // messages to release after the pull
}

func (d *dispatcher) dispatch(m jetstream.Msg) {
	isPaused := d.state.isPaused()
	if isPaused && d.requested > 1 { // the pause began during this pull, and a paused worker tries one message at a time
		if it := d.newItem(m); it != nil {
			d.rejected = append(d.rejected, it)
		}
		return
	}
	mayForward := d.peers != nil && d.intake.Err() == nil && !d.probe && !isPaused
	if mayForward {
		if owner := d.peers.otherOwner(m); owner != "" {
			d.outgoing[owner] = append(d.outgoing[owner], m)
			return
		}
	}
	d.accept(m)
}

// forward forwards the outgoing messages. It accepts those that could not be sent.
func (d *dispatcher) forward() {
	for owner, all := range d.outgoing {
		unsent := d.peers.forward(owner, all)
		for _, m := range unsent {
			d.accept(m)
		}
	}
	clear(d.outgoing)
}

// drain closes a pull and calls fn for the messages in transit.
func (p *puller) drain(pulls jetstream.MessagesContext, fn func(jetstream.Msg)) {
	pulls.Drain()
	wait := drainTimeout
	if !p.conn.nc.IsConnected() {
		wait = drainArrived
	}
	for {
		m, err := pulls.Next(jetstream.NextMaxWait(wait))
		if err != nil {
			return
		}
		fn(m)
	}
}

// next returns the next message, or an error after the worker stopped or the pull was closed. If messages wait to be forwarded
// (hasOutgoing) and no other arrives for forwardWait, it returns nil.
func (p *puller) next(pulls jetstream.MessagesContext, hasOutgoing bool) (jetstream.Msg, error) {
	if hasOutgoing {
		m, err := pulls.Next(jetstream.NextMaxWait(forwardWait))
		if errors.Is(err, nats.ErrTimeout) {
			return nil, nil
		}
		return m, err
	}
	for {
		ctx, stop := context.WithTimeout(p.intake, 2*pullExpiry)
		m, err := pulls.Next(jetstream.NextContext(ctx))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || p.intake.Err() != nil {
			return m, err
		}
		if p.conn.nc.IsConnected() { // the server would have denied the pull by now
			p.state.clearDeniedPull()
		}
	}
}

// waitForCapacity waits until there may be capacity, d has passed, or the worker stops.
func (p *puller) waitForCapacity(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.intake.Done():
	case <-t.C:
	case <-p.wake:
	}
}

// newItem returns the item of a delivered message, or nil if the message has no metadata.
func (p *puller) newItem(m jetstream.Msg) *item {
	md, err := m.Metadata()
	if err != nil {
		p.log.Error().Err(err).Str("subject", m.Subject()).Msg("message without metadata")
		return nil
	}
	publishedBefore := m.Headers().Get(events.HeaderRepeat) != "" || md.Sequence.Stream <= p.restored.Load() // see streams.MetadataRestored
	number := int(md.NumDelivered)
	it := &item{
		msg: m, latestDelivery: number, initialDelivery: number,
		d: Delivery{
			Seq: md.Sequence.Stream, Attempt: number, Stored: md.Timestamp,
			Repeat: publishedBefore || number > 1,
			Trace:  m.Headers().Get(events.HeaderTrace),
		},
	}
	it.attemptKnown = !it.d.Repeat // a first delivery has no record
	if events.TraceID(it.d.Trace) == "" {
		it.d.Trace = ""
	}
	return it
}

// acceptForwarded starts work on a message that another process pulled. A paused worker gives it back.
func (p *puller) acceptForwarded(m jetstream.Msg) {
	if !p.state.isPaused() {
		p.accept(m)
	} else if it := p.newItem(m); it != nil {
		p.processor.release([]*item{it}, p.policy.BackoffMax)
	}
}

// accept starts work on a delivered message.
func (p *puller) accept(m jetstream.Msg) {
	it := p.newItem(m)
	if it == nil {
		return
	}
	if old := p.flight.add(it); old != nil { // this worker still has the message: add has put the new delivery into the old item
		old.addSpanEvent("redelivered", nil)
		p.busy.Go(func() { p.attempts.store([]*item{old}) }) // so that the redelivery does not count as a further attempt
		return
	}
	p.state.recordDelivery()
	p.conn.Stats.update(p.worker.Role, func(v *roleCounters) { v.LastDelivery = time.Now() })

	switch {
	case p.intake.Err() != nil:
		// Released only after the pull is closed. Otherwise the server would redeliver the message to this pull at
		// once.
		p.mu.Lock()
		p.afterStop = append(p.afterStop, it)
		p.mu.Unlock()
	case p.worker.Batch > 1:
		p.queues.enqueue(it)
	default:
		p.busy.Go(func() {
			p.slots <- struct{}{}
			p.processor.process([]*item{it})
			<-p.slots
		})
	}
}
