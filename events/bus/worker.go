package bus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/playbook"
)

// Worker configures a role: its handler, and how many messages it takes at a time.
type Worker struct {
	Role string
	// Handle handles deliveries of one book and returns a result for each, in order. It may block on a model: the
	// messages stay in progress meanwhile. With Batch 1 it gets one delivery for each call. After a stop and the grace
	// period ctx ends, and Handle must return, because Run waits for it.
	Handle func(ctx context.Context, batch []*Delivery) []Result
	// Slots is the number of calls of Handle that run at the same time; default 1.
	Slots int
	// Batch, if above 1, is the largest number of waiting messages of a book that one call gets. Books run in parallel,
	// each with one call at a time.
	Batch int
	// Done reports whether the effect of an earlier attempt at a delivery is stored. If so, the message does not become
	// a dead letter. It is called only for a message that another worker may have had, and may be slow. Nil means
	// false.
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
	// is handled like that of a failed publish.
	AfterStore func(ctx context.Context, first Receipt) error
	// Reply, if set, is sent to the reply subject of the event. Otherwise the first of Events is sent.
	Reply []byte
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
	w.Slots, w.Batch = max(w.Slots, 1), min(max(w.Batch, 1), maxHeld/2)
	cons, restored, err := c.bindConsumer(ctx, w.Role)
	if ctx.Err() != nil {
		return nil // stopped before the start
	}
	if err != nil {
		return err
	}
	// ctx ends at the stop. work ends after the grace period, with a cause, and cancels the handlers.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() {
		t := time.NewTimer(c.policy.Grace)
		defer t.Stop()
		select {
		case <-work.Done():
		case <-t.C:
			stop(fmt.Errorf("%s: handler not finished %s after the stop", w.Role, c.policy.Grace))
		}
	})()

	r := &runner{
		c: c, w: w, p: c.policy, cons: cons, restored: restored, intake: ctx, work: work,
		log:         c.log.With().Str(events.LogRole, w.Role).Logger(),
		lastContact: time.Now(),
		slots:       make(chan struct{}, w.Slots),
		drained:     make(chan struct{}),
		wake:        make(chan struct{}, 1),
		held:        make(map[uint64]*item),
		queues:      make(map[playbook.Book]*bookQueue),
	}
	c.stats.update(w.Role, func(v *roleCounters) { v.Started = time.Now() })
	c.health.set(w.Role, Running, "")
	defer c.health.set(w.Role, Stopped, "")

	consumer := inputStream(w.Role) + "." + w.Role
	defer c.watch.Notify([]string{pullSubject + consumer, "$JS.ACK." + consumer}, func(e *DeniedError) { r.setDenied(e) })()

	aliveDone := make(chan struct{})
	go func() {
		defer close(aliveDone)
		r.keepAlive(work)
	}()
	watchDone := make(chan struct{})
	go func() {
		defer close(watchDone)
		r.watchLetters(ctx)
	}()
	r.pull()
	r.busy.Wait()
	stop(nil)
	<-aliveDone
	<-watchDone
	flushTimeout := 5 * time.Second
	if !c.nc.IsConnected() {
		flushTimeout = time.Second
	}
	if err := c.nc.FlushTimeout(flushTimeout); err != nil {
		r.log.Warn().Err(err).Msg("the last acks may be lost: their messages will be redelivered")
	}
	return nil
}

// runner runs one Worker.
type runner struct {
	c         *Conn
	w         Worker
	p         Policy
	cons      jetstream.Consumer // used only by the goroutine of pull
	afterStop []*item            // received after the stop; used only by the same goroutine
	// restored is the last sequence that came from a backup; used only by the same goroutine.
	restored uint64
	log      zerolog.Logger

	intake  context.Context // ends at the stop: pull no more messages
	work    context.Context // ends after the grace period: cancel the handlers
	slots   chan struct{}
	busy    sync.WaitGroup // Add only in pull, Wait only after it
	drained chan struct{}  // closed when no more messages can arrive after the stop
	wake    chan struct{}  // signals that there may be capacity again

	mu   sync.Mutex
	held map[uint64]*item // messages in progress, by stream sequence
	// heldBytes is the size of their payloads.
	heldBytes       int
	lastContact     time.Time // when the last signs of life that the server answered were sent
	contactRegained time.Time // when contact returned after a gap of at least the ack wait
	queues          map[playbook.Book]*bookQueue
	openPull        jetstream.MessagesContext // the open pull, or nil
	state           workerState

	publishOrder sync.Mutex // records of attempts are published in the order in which they are created
}

// item is one message in progress.
type item struct {
	// The newest delivery and its number. mu of the runner guards these fields.
	msg          jetstream.Msg
	latestNumber int
	uncounted    bool // the newest delivery does not count as an attempt so far
	redelivered  bool // the server redelivered the message while it was held

	deliveryNumber int       // number of the delivery that created the item
	received       time.Time // when that delivery arrived
	// reconnects is the connection's number of reconnects at that time.
	reconnects    uint64
	attemptKnown  bool   // d.Attempt is final: the record was read, or none is expected; written under mu
	letterSubject string // subject of the message's dead letter, if it has one
	letterKnown   bool   // letterSubject was read after the effect was stored

	// The goroutine that processes the item owns the other fields.
	d            Delivery
	span         trace.Span // nil if tracing is disabled
	result       *Result    // set after the handler, so that a hold does not call it again
	storedEvents int        // number of result.Events that are stored
	firstMsg     *nats.Msg  // the first of them as stored, for the reply
	firstReceipt Receipt    // its receipt
	inDoubt      bool       // a publish failed without an answer: the event may be stored

	disposition disposition // the latest disposition, and its error
	err         error
}

// keepAlive sends a sign of life for every held message, three times in each ack wait.
func (r *runner) keepAlive(ctx context.Context) {
	t := time.NewTicker(r.p.AckWait / 3)
	defer t.Stop()
	var msgs []jetstream.Msg
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		began := time.Now()
		msgs = msgs[:0]
		r.mu.Lock()
		for _, it := range r.held {
			msgs = append(msgs, it.msg)
		}
		r.mu.Unlock()
		for _, m := range msgs { // fails for a message that was acknowledged meanwhile, which is harmless
			if err := m.InProgress(); err != nil {
				r.log.Debug().Err(err).Msg("keep alive")
			}
		}
		clear(msgs)
		if r.c.nc.FlushTimeout(r.p.AckWait/3) == nil {
			r.recordContact(began)
		}
	}
}

// recordContact records that the server has answered the signs of life that were sent at a time.
func (r *runner) recordContact(sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.lastContact) >= r.p.AckWait {
		r.contactRegained = now
	}
	r.lastContact = sent
}

// mayBeShared reports whether another worker may have, or have had, the message of an item. This is so if the event was
// published before, or if the server has redelivered the message. It is also so if the server may redeliver it, because
// it got no sign of life for the ack wait or because the connection was lost.
func (r *runner) mayBeShared(it *item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.d.Repeat || it.redelivered || it.reconnects != r.c.nc.Stats().Reconnects || it.received.Before(r.contactRegained) || time.Since(r.lastContact) >= r.p.AckWait
}
