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

// Worker is a role: what it handles, and how much at a time.
type Worker struct {
	Role string
	// Handle handles deliveries of one book and returns a result for each, in order. It may block on a model: what it
	// holds is kept alive. A role with Batch 1 gets one delivery a call. When ctx ends, a grace after the stop, it must
	// return: Run waits for it.
	Handle func(ctx context.Context, batch []*Delivery) []Result
	// Slots is how many calls of Handle run at the same time; default 1.
	Slots int
	// Batch above 1 hands over everything that waits for a book, up to so many; books run side by side, one book one
	// call at a time.
	Batch int
	// Done reports whether the effect of an earlier attempt at a delivery is stored: then it becomes no dead letter. It is
	// called before a redelivered message becomes one, and may be slow. Nil is never.
	Done func(ctx context.Context, d *Delivery) (bool, error)
}

// Delivery is an event on its way through a role.
type Delivery struct {
	Event   events.Event
	Seq     uint64    // its stream sequence
	Attempt int       // 1 for the first attempt
	Stored  time.Time // when the server stored it
	// Repeat says that the event may have been published before under another sequence.
	Repeat bool
	Trace  string // W3C trace context: of the delivery's span, of the message where nobody traces; empty where it had none
}

// Handle is the public name of the delivered event.
func (d *Delivery) Handle() events.Handle { return events.NewHandle(d.Seq, d.Event.EventID()) }

// Result is what a role made of a delivery.
type Result struct {
	// Events are stored, in order, before the delivery is acked.
	Events []events.Event
	// Then, if set, runs once the first of Events is stored, before anybody is answered and before the delivery is acked.
	// With an error it is tried again like a store that failed.
	Then func(ctx context.Context, first Receipt) error
	// Reply, if set, is sent to the event's reply subject; otherwise the first of Events is.
	Reply []byte
	// Version is that of the playbook which holds what came of the delivery, where that is a change of one.
	Version uint64
	// Asked: a model was asked and its reply was useful. This is the evidence that useless output for another message is
	// that message's own fault.
	Asked bool
	// Err decides by its behaviour what becomes of the delivery; see Discard and the failure policy.
	Err error
}

// pullSubject and a durable's stream and name are where it is asked for messages.
const pullSubject = "$JS.API.CONSUMER.MSG.NEXT."

// Run works until the context ends: then it takes no more, finishes what is in work within the policy's grace, and
// gives the rest back. It returns an error only when it cannot begin.
func (c *Conn) Run(ctx context.Context, w Worker) error {
	w.Slots, w.Batch = max(w.Slots, 1), min(max(w.Batch, 1), maxHeld/2)
	cons, restored, err := c.bind(ctx, w.Role)
	if ctx.Err() != nil {
		return nil // stopped before it began
	}
	if err != nil {
		return err
	}
	// Two lifetimes: ctx ends intake; work ends, a grace later and with a cause, what is still in a handler then.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() {
		t := time.NewTimer(c.policy.Grace)
		defer t.Stop()
		select {
		case <-work.Done():
		case <-t.C:
			stop(fmt.Errorf("%s: not finished %s after the stop", w.Role, c.policy.Grace))
		}
	})()

	r := &run{
		c: c, w: w, p: c.policy, cons: cons, restored: restored, intake: ctx, work: work,
		log:     c.log.With().Str(events.LogRole, w.Role).Logger(),
		contact: time.Now(),
		slots:   make(chan struct{}, w.Slots),
		drained: make(chan struct{}),
		wake:    make(chan struct{}, 1),
		held:    make(map[uint64]*item),
		queues:  make(map[playbook.Book]*queue),
	}
	c.vitals.count(w.Role, func(v *record) { v.Started = time.Now() })
	c.health.set(w.Role, Running, "")
	defer c.health.set(w.Role, Stopped, "")

	asks := source(w.Role) + "." + w.Role
	defer c.watch.Notify([]string{pullSubject + asks, "$JS.ACK." + asks}, func(e *DeniedError) { r.denied(e) })()

	alive := make(chan struct{})
	go func() {
		defer close(alive)
		r.keepAlive(work)
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watchNewer(ctx)
	}()
	r.pull()
	r.busy.Wait()
	stop(nil)
	<-alive
	<-watched
	wait := 5 * time.Second
	if !c.nc.IsConnected() {
		wait = time.Second
	}
	if err := c.nc.FlushTimeout(wait); err != nil {
		r.log.Warn().Err(err).Msg("the last acks may be lost: what they were for will be handled again")
	}
	return nil
}

// run is one worker at work.
type run struct {
	c    *Conn
	w    Worker
	p    Policy
	cons jetstream.Consumer // of the goroutine that pulls
	late []*item            // of the same goroutine: came after the stop
	// restored is the last sequence that came of a backup; of the same goroutine.
	restored uint64
	log      zerolog.Logger

	intake  context.Context // ends when no more work is taken
	work    context.Context // ends when work in flight must stop
	slots   chan struct{}
	busy    sync.WaitGroup // Add only while pulling, Wait only after it
	drained chan struct{}  // closed when, after the stop, nothing can be delivered to us any more
	wake    chan struct{}  // there may be room again

	mu   sync.Mutex
	held map[uint64]*item // by stream sequence: everything delivered to us and not settled
	// heldBytes is how large their payloads are, as they came.
	heldBytes int
	contact   time.Time // when the last signs of life were sent that the server has answered
	silent    time.Time // the end of the last time without such an answer for the ack wait
	queues    map[playbook.Book]*queue
	pulls     jetstream.MessagesContext // the open pull, or nil
	state     condition

	records sync.Mutex // so that records of attempts are published in the order in which they are made
}

// item is one delivery that the worker has to settle.
type item struct {
	// The newest delivery, and the server's number of it. All of these are under run.mu.
	msg       jetstream.Msg
	delivered int
	idle      bool // this delivery does not count as an attempt so far
	again     bool // the server delivered it while it was held

	number  int       // the server's number of the delivery that made the item
	taken   time.Time // when that came
	counted bool      // d.Attempt is right: the stored record was read, or none is expected; written under run.mu
	letter  string    // subject of the dead letter that it has

	// The rest belongs to the goroutine that processes the item.
	d      Delivery
	span   trace.Span // nil where nobody traces
	done   *Result    // set once handled, so that a hold does not handle twice
	stored int        // how many of done.Events are stored
	first  *nats.Msg  // the first of them as it was stored, for the reply
	where  Receipt    // of that one
	doubt  bool       // a store failed without a word from the server: it may have been stored all the same

	verdict verdict // the last one, and the error that it was about
	why     error
}

// keepAlive tells the server, three times in every ack wait, that what we hold is still in work.
func (r *run) keepAlive(ctx context.Context) {
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
		for _, m := range msgs { // one that was settled meanwhile refuses, which is as well
			if err := m.InProgress(); err != nil {
				r.log.Debug().Err(err).Msg("keep alive")
			}
		}
		clear(msgs)
		if r.c.nc.FlushTimeout(r.p.AckWait/3) == nil {
			r.touch(began)
		}
	}
}

// touch notes that the server has answered after it was sent signs of life at a time.
func (r *run) touch(sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.contact) >= r.p.AckWait {
		r.silent = now
	}
	r.contact = sent
}

// outOfTouch reports whether another worker may have been given an item while this one had it: the server delivers a
// message again when it has heard nothing for the ack wait.
func (r *run) outOfTouch(it *item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.again || it.taken.Before(r.silent) || time.Since(r.contact) >= r.p.AckWait
}
