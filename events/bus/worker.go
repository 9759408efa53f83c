package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/events/streams"
	"debrief/playbook"
)

// Worker configures a role: its handler, and how many messages it takes at a time.
type Worker struct {
	Role string
	// Handle handles deliveries of one book and returns a result for each, in order. It may block on a model: the
	// messages stay in progress meanwhile. With Batch 1 it gets one delivery for each call. After a stop and the grace
	// period (Policy.Grace, or less after ErrInterrupted) ctx ends, and Handle must return, because Run waits for it.
	Handle func(ctx context.Context, batch []*Delivery) []Result
	// Slots is the number of calls of Handle that run at the same time; default 1.
	Slots int
	// Batch, if above 1, is the largest number of waiting messages of a book that one call gets. Books run in parallel,
	// each with one call at a time. While the processes of the role hear each other, only one of them handles a book.
	Batch int
	// Books, if set, returns the known books, sorted. If Batch is above 1, the processes of the role own equal numbers of them.
	Books func() []playbook.Book
	// Warm, if set, reads into memory what Handle needs for a book. It runs before the attempts in small groups, so that a crash during
	// this read costs no attempt. It returns no error, because Handle reads the same and returns it.
	Warm func(ctx context.Context, b playbook.Book)
	// Waiting, if set, returns why the handlers wait now, such as "rate limited", or "". RoleHealth shows it.
	Waiting func() string
	// Done reports whether the effect of an earlier attempt at a delivery is stored. If so, the message does not become
	// a dead letter. It is called only for a message that was delivered or published before, so it may be slow. If Done is nil, no effect
	// counts as stored.
	Done func(ctx context.Context, d *Delivery) (bool, error)
}

// Delivery is a delivered event.
type Delivery struct {
	Event   events.Event
	Seq     uint64    // its sequence in the stream
	Attempt int       // 1 for the first attempt
	Stored  time.Time // when the server stored the message
	// Repeat means that the event may have been published or delivered before.
	Repeat bool
	Trace  string // W3C trace context of the delivery's span, or of the message if tracing is disabled; may be empty
}

// Handle returns the public name of the delivered event.
func (d *Delivery) Handle() events.Handle { return events.NewHandle(d.Seq, d.Event.EventID()) }

// Result is the result of a handler for one delivery.
type Result struct {
	// Events are stored in order before the delivery is acknowledged.
	Events []events.Event
	// AfterStore, if set, runs after the first of Events is stored, and before the reply and the acknowledgement. Its error
	// is handled like the error of a failed publish.
	AfterStore func(ctx context.Context, first Receipt) error
	// Reply, if set, is sent to the reply subject of the event. Otherwise the first of Events is sent.
	Reply []byte
	// Forward makes another worker reply: Events are published with the reply subject of this event.
	Forward bool
	// ReplyOriginal replies with the handled event itself, in place of the first of Events. It is for the worker that replies
	// after a Forward.
	ReplyOriginal bool
	// Version is the playbook version that contains the effect of the delivery; 0 if the playbook did not change.
	Version uint64
	// ModelUseful means that a model was asked and its output was useful. It is the evidence that useless output for another
	// message is the fault of that message.
	ModelUseful bool
	// Err ends the delivery by its behaviour; see Discard and Policy.
	Err error
}

// pullSubject is the prefix of the subjects of pull requests. The stream and the durable follow.
const pullSubject = "$JS.API.CONSUMER.MSG.NEXT."

// Run pulls and handles messages until ctx ends. Then it stops pulling, waits for messages in flight during the grace
// period, and returns the others to the server. It returns an error only if it cannot open the consumer.
func (c *Conn) Run(ctx context.Context, w Worker) error {
	w.Slots = max(w.Slots, 1)
	w.Batch = min(max(w.Batch, 1), maxInProgress/2) // a batching worker pulls one batch ahead
	cons, restored, err := c.Consumers.bind(ctx, w.Role)
	if ctx.Err() != nil {
		return nil // stopped before the start
	}
	if err != nil {
		return err
	}
	work, endWork := c.workContext(ctx, w.Role)
	defer endWork()
	policy := c.policy
	policy.AckWait = policy.ackWait(w.Role)
	r := &runner{
		conn: c, worker: w, policy: policy, intake: ctx, work: work,
		log:     c.log.With().Str(events.LogRole, w.Role).Logger(),
		slots:   make(chan struct{}, w.Slots),
		drained: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	p := newPuller(r, cons, restored)
	if w.Batch > 1 {
		p.peers = newPeers(r, p.acceptForwarded)
		if err := p.peers.join(); err != nil {
			return err
		}
	}

	c.Stats.update(w.Role, func(v *roleCounters) { v.Started = time.Now() })
	c.Health.set(RoleHealth{Role: w.Role, State: Running})
	c.Health.setWaiting(w.Role, w.Waiting)
	defer c.Health.set(RoleHealth{Role: w.Role, State: Stopped})

	consumer := streams.Input(w.Role) + "." + w.Role
	defer c.watch.Notify([]string{pullSubject + consumer, "$JS.ACK." + consumer}, func(e *DeniedError) { p.state.setDenied(e) })()

	var helpers sync.WaitGroup
	helpers.Go(func() { p.flight.keepAlive(work) })
	p.run()
	r.busy.Wait()
	endWork()
	helpers.Wait()
	if err := c.flushAcks(); err != nil {
		r.log.Warn().Err(err).Msg("the last acks may be lost: their messages will be redelivered")
	}
	return nil
}

// workContext returns the context of the handlers of a role. ctx ends at the stop. The context of the handlers ends after the grace period, with
// a cause, or when end is called.
func (c *Conn) workContext(ctx context.Context, role string) (work context.Context, end func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	ignoreStop := context.AfterFunc(ctx, func() {
		grace := c.policy.graceOf(ctx)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-work.Done():
		case <-t.C:
			cancel(fmt.Errorf("%s: handler not finished %s after the stop", role, grace))
		}
	})
	return work, func() {
		ignoreStop()
		cancel(nil)
	}
}

// Limits of the wait until the server has received the last acknowledgements: with a connection, and without one.
const (
	flushTimeout        = 5 * time.Second
	offlineFlushTimeout = time.Second
)

// flushAcks waits until the server has received the acknowledgements.
func (c *Conn) flushAcks() error {
	if !c.nc.IsConnected() {
		return c.nc.FlushTimeout(offlineFlushTimeout)
	}
	return c.nc.FlushTimeout(flushTimeout)
}

// newPuller creates the parts of a worker, see runner.
func newPuller(r *runner, cons jetstream.Consumer, restored uint64) *puller {
	flight := &inFlight{runner: r, items: make(map[uint64]*item)}
	state := &roleState{runner: r}
	attempts := &attemptRecords{runner: r, flight: flight}
	queues := &bookQueues{runner: r, byBook: make(map[playbook.Book]*bookQueue)}
	queues.processor = &processor{
		runner: r, flight: flight, state: state, attempts: attempts, queues: queues,
	}
	p := &puller{runner: r, flight: flight, state: state, attempts: attempts, queues: queues, processor: queues.processor, cons: cons}
	p.restored.Store(restored)
	return p
}

// Serve reports a role as serving until ctx ends. It is for a role that takes no messages, and serves requests only.
func (c *Conn) Serve(ctx context.Context, role string) {
	c.Stats.update(role, func(v *roleCounters) { v.Started = time.Now() })
	c.Health.set(RoleHealth{Role: role, State: Serving})
	defer c.Health.set(RoleHealth{Role: role, State: Stopped})
	<-ctx.Done()
}

// runner contains the configuration and the lifetime of one call of Run. The parts of a worker share it:
//
//   - puller pulls messages while there is capacity.
//   - bookQueues groups the messages of a batching worker by book.
//   - processor handles messages and applies their dispositions.
//   - inFlight lists the messages in progress and keeps them alive.
//   - attemptRecords stores the numbers of attempts.
//   - roleState contains the reasons that stop or limit the pulling of messages.
type runner struct {
	conn   *Conn
	worker Worker
	policy Policy
	log    zerolog.Logger

	intake  context.Context // ends at the stop: pull no more messages
	work    context.Context // ends after the grace period: cancel the handlers
	slots   chan struct{}   // a send takes a slot for a call of the handler, a receive returns it
	busy    sync.WaitGroup  // Add only before puller.run ends, Wait only after it
	drained chan struct{}   // closed when no more messages can arrive after the stop
	wake    chan struct{}   // signals that there may be capacity again
}

// wait waits for d. It returns false if the worker stops first.
func (r *runner) wait(d time.Duration) bool {
	return events.Sleep(r.intake, d) == nil
}

// wakeUp ends waitForCapacity of the puller.
func (r *runner) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
