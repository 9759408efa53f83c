package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/events"
	"debrief/playbook"
)

// Worker is a role: what it handles, and how much at a time.
type Worker struct {
	Role string
	// Handle handles deliveries of one book and returns a result for each, in order. It may block on a model: what it
	// holds is kept alive. A role with Batch 1 gets one delivery a call.
	Handle func(ctx context.Context, batch []*Delivery) []Result
	// Slots is how many calls of Handle run at the same time; default 1.
	Slots int
	// Batch above 1 hands over everything that waits for a book, up to so many; books run side by side, one book one
	// call at a time.
	Batch int

	// decode is for the mover, whose messages are the server's.
	decode func(context.Context, jetstream.Msg) (events.Event, error)
}

// Delivery is an event on its way through a role.
type Delivery struct {
	Event   events.Event
	Seq     uint64    // its stream sequence
	Attempt int       // 1 for the first delivery
	Stored  time.Time // when the server stored it
	// Repeat says that the event may have been published before under another sequence.
	Repeat bool
	Trace  string
}

// Handle is the public name of the delivered event.
func (d *Delivery) Handle() events.Handle { return events.NewHandle(d.Seq, d.Event.EventID()) }

// Result is what a role made of a delivery.
type Result struct {
	// Events are stored, in order, before the delivery is acked.
	Events []events.Event
	// Reply, if set, is sent to the event's reply subject; otherwise the first of Events is.
	Reply []byte
	// Err decides by its behaviour what becomes of the delivery; see Discard and the failure policy.
	Err error

	after func(context.Context) error // runs once Events are stored
}

// fetchWait is how long one pull waits for work; it bounds how long a stop waits for the pull.
const fetchWait = time.Second

// Run works until the context ends: then it takes no more, finishes what is in work within the policy's grace, and
// gives the rest back. It returns an error only when it cannot begin.
func (c *Conn) Run(ctx context.Context, w Worker) error {
	w.Slots, w.Batch = max(w.Slots, 1), max(w.Batch, 1)
	if w.decode == nil {
		w.decode = c.decode
	}
	cons, err := c.consumer(ctx, w.Role)
	if err != nil {
		return err
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	r := &run{
		c: c, w: w, p: c.policy, cons: cons, intake: ctx, work: work,
		log:    c.log.With().Str("role", w.Role).Logger(),
		slots:  make(chan struct{}, w.Slots),
		held:   make(map[uint64]*item),
		queues: make(map[playbook.Book]*queue),
		wake:   make(chan struct{}, 1),
	}
	c.health.set(w.Role, Running, "")
	defer c.health.set(w.Role, Stopped, "")

	alive := make(chan struct{})
	go func() {
		defer close(alive)
		r.keepAlive(work)
	}()
	context.AfterFunc(ctx, func() {
		time.AfterFunc(c.policy.Grace, func() { stop(fmt.Errorf("%s: not finished %s after the stop", w.Role, c.policy.Grace)) })
	})
	r.pull()
	r.busy.Wait()
	stop(nil)
	<-alive
	return c.nc.FlushTimeout(5 * time.Second)
}

// run is one worker at work.
type run struct {
	c    *Conn
	w    Worker
	p    Policy
	cons jetstream.Consumer
	log  zerolog.Logger

	intake context.Context // ends when no more work is taken
	work   context.Context // ends when work in flight must stop
	slots  chan struct{}
	busy   sync.WaitGroup
	wake   chan struct{} // there may be room again

	mu      sync.Mutex
	held    map[uint64]*item // by stream sequence: everything delivered to us and not settled
	queues  map[playbook.Book]*queue
	holding int // groups that wait for something unreachable
	recent  [uselessWindow]bool
	seen    int // outcomes of the model since the last pause
	paused  bool
	old     bool // a newer schema was met
}

// item is one delivery that the worker has to settle.
type item struct {
	msg  jetstream.Msg // the newest delivery; under run.mu
	d    Delivery
	done *Result // set once handled, so that a hold does not handle twice
}

// queue is what waits for a book.
type queue struct {
	items []*item
	full  chan struct{}
}

// pull takes work while there is room for it. Pulled and busy together never exceed what the worker may hold, so
// nothing waits behind a busy worker while another one is free.
func (r *run) pull() {
	for try := 0; r.intake.Err() == nil; {
		n := r.room()
		if n == 0 {
			r.sleep(r.p.Hold)
			continue
		}
		batch, err := r.cons.Fetch(n, jetstream.FetchMaxWait(fetchWait))
		if err == nil {
			for m := range batch.Messages() {
				r.accept(m)
				try = 0
			}
			err = batch.Error()
		}
		if err != nil && !errors.Is(err, nats.ErrTimeout) && r.intake.Err() == nil {
			try++
			r.log.Debug().Err(err).Msg("pull")
			if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, nats.ErrNoResponders) {
				if cons, cerr := r.c.consumer(r.intake, r.w.Role); cerr == nil {
					r.cons = cons
				}
			}
			r.sleep(min(time.Duration(try)*100*time.Millisecond, 2*time.Second))
		}
		if r.isPaused() {
			r.sleep(r.p.Probe)
		}
	}
}

// maxHeld bounds what a batching worker holds, over all books.
const maxHeld = 4096

// room is how many more messages may be asked for.
func (r *run) room() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.old || r.holding > 0:
		return 0
	case r.paused:
		return max(1-len(r.held), 0)
	case r.w.Batch > 1:
		return min(maxHeld-len(r.held), r.w.Batch)
	}
	return r.w.Slots - len(r.held)
}

func (r *run) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused
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

// accept takes one message into work.
func (r *run) accept(m jetstream.Msg) {
	md, err := m.Metadata()
	if err != nil {
		r.log.Error().Err(err).Str("subject", m.Subject()).Msg("message without metadata")
		return
	}
	it := &item{msg: m, d: Delivery{
		Seq: md.Sequence.Stream, Attempt: int(md.NumDelivered), Stored: md.Timestamp,
		Repeat: m.Headers().Get(events.HeaderRepeat) != "" || md.NumDelivered > 1,
		Trace:  m.Headers().Get(events.HeaderTrace),
	}}
	r.mu.Lock()
	if old := r.held[it.d.Seq]; old != nil {
		// Ours already: the server lost our signs of life, as after its restart. The new delivery is the one to ack.
		old.msg = m
		r.mu.Unlock()
		return
	}
	r.held[it.d.Seq] = it
	r.mu.Unlock()

	if r.intake.Err() != nil {
		r.giveBack(it, 0)
		return
	}
	it.d.Event, err = r.w.decode(r.work, m)
	if err != nil {
		it.done = &Result{Err: err}
	}
	r.busy.Add(1)
	if r.w.Batch == 1 || err != nil {
		go func() {
			defer r.busy.Done()
			r.slots <- struct{}{}
			r.process([]*item{it})
			<-r.slots
		}()
		return
	}
	r.enqueue(it)
}

// enqueue adds to what waits for a book, and starts on the book if nobody is.
func (r *run) enqueue(it *item) {
	book := it.d.Event.InBook()
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[book]
	if q == nil {
		q = &queue{full: make(chan struct{}, 1)}
		r.queues[book] = q
		go r.drainBook(book, q)
	}
	q.items = append(q.items, it)
	if len(q.items) == r.w.Batch {
		select {
		case q.full <- struct{}{}:
		default:
		}
	}
}

// drainBook hands over what waits for a book, batch after batch, until nothing came for a while. The first batch goes
// at once; after that a batch waits until it is full or the linger is over, because load makes larger batches cheaper.
func (r *run) drainBook(book playbook.Book, q *queue) {
	for {
		r.slots <- struct{}{}
		began := time.Now()
		batch := r.takeBatch(book, q, false)
		if r.intake.Err() == nil {
			r.process(batch)
		} else { // not begun: somebody else's, soon
			for _, it := range batch {
				r.giveBack(it, 0)
			}
		}
		<-r.slots
		r.busy.Add(-len(batch))
		r.linger(q, r.p.Linger-time.Since(began))
		if r.takeBatch(book, q, true) == nil {
			return
		}
	}
}

func (r *run) linger(q *queue, d time.Duration) {
	r.mu.Lock()
	full := len(q.items) >= r.w.Batch
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

// takeBatch takes the next batch. With peek it takes nothing, and closes the queue if it is empty.
func (r *run) takeBatch(book playbook.Book, q *queue, peek bool) []*item {
	r.mu.Lock()
	defer r.mu.Unlock()
	if peek {
		if len(q.items) == 0 {
			delete(r.queues, book)
			return nil
		}
		return q.items
	}
	n := min(len(q.items), r.w.Batch)
	batch := q.items[:n:n]
	q.items = q.items[n:]
	return batch
}

// process handles deliveries until each is settled. What must be held is tried again here, in place.
func (r *run) process(items []*item) {
	held := false
	for try := 0; len(items) > 0; try++ {
		r.handle(items)
		var again []*item
		var why error
		for _, it := range items {
			if err := r.settle(it); err != nil {
				again, why = append(again, it), err
			}
		}
		if items = again; len(items) == 0 {
			break
		}
		if !held {
			held = true
			r.hold(+1, why)
		}
		if !r.waitHeld(why, try) {
			for _, it := range items {
				r.giveBack(it, r.p.BackoffMin)
			}
			break
		}
	}
	if held {
		r.hold(-1, nil)
	}
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
	results := func() (out []Result) {
		defer func() {
			if p := recover(); p != nil {
				r.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("handler panicked")
				out = make([]Result, len(batch))
				for i := range out {
					out[i].Err = fmt.Errorf("handler panicked: %v", p)
				}
			}
		}()
		return r.w.Handle(r.work, batch)
	}()
	for i, it := range todo {
		if i < len(results) {
			it.done = &results[i]
			r.note(it.done.Err)
		} else {
			it.done = &Result{Err: fmt.Errorf("handler of %s returned %d results for %d deliveries", r.w.Role, len(results), len(batch))}
		}
	}
}
