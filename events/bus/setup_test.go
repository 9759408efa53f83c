package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/events/streams"
	"debrief/playbook"
)

// waitLimit is how long a test waits for an event; a longer wait fails the test. It is several times the ack wait of
// any test, because a message that was sent to a closed pull is redelivered after one ack wait.
const waitLimit = 45 * time.Second

// fastPolicy has short waits, except for the ack wait: a loaded machine must not look like a crashed worker.
var fastPolicy = Policy{BackoffMin: 30 * time.Millisecond, BackoffMax: 120 * time.Millisecond, ProbeInterval: 60 * time.Millisecond, HoldInterval: 20 * time.Millisecond, Linger: 20 * time.Millisecond}

func serve(t testing.TB, cfg natsd.Config) *natsd.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Sync = "1m"
	s, err := natsd.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// startNATS starts a NATS server with options that natsd does not have: no JetStream, a cluster, or other permissions.
func startNATS(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(waitLimit) {
		t.Fatal("not ready")
	}
	return s
}

func open(t testing.TB, s *natsd.Server, p Policy) *Conn {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return openOn(t, nc, p)
}

func openOn(t testing.TB, nc *nats.Conn, p Policy) *Conn {
	t.Helper()
	c, err := Open(t.Context(), nc, Options{Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connectNew returns a connection to a new server.
func connectNew(t testing.TB, p Policy) *Conn {
	t.Helper()
	return open(t, serve(t, natsd.Config{}), p)
}

// runningWorker is a worker in progress.
type runningWorker struct {
	t    testing.TB
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// start runs a worker until the test ends or stops it.
func start(t testing.TB, c *Conn, w Worker) *runningWorker {
	t.Helper()
	return startFunc(t, func(ctx context.Context) error { return c.Run(ctx, w) })
}

func startFunc(t testing.TB, f func(context.Context) error) *runningWorker {
	ctx, stop := context.WithCancel(context.Background())
	r := &runningWorker{t: t, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = f(ctx)
	}()
	t.Cleanup(func() {
		stop()
		r.wait()
	})
	return r
}

// wait waits until Run returns, and returns the duration of the wait.
func (r *runningWorker) wait() time.Duration {
	r.t.Helper()
	began := time.Now()
	within(r.t, r.done, "Run did not return")
	if r.err != nil {
		r.t.Errorf("Run: %v", r.err)
	}
	return time.Since(began)
}

// within receives from ch, or fails the test after waitLimit.
func within[T any](t testing.TB, ch <-chan T, otherwise string) T {
	t.Helper()
	timer := time.NewTimer(waitLimit)
	defer timer.Stop()
	select {
	case v := <-ch:
		return v
	case <-timer.C:
		t.Fatal(otherwise)
		panic("unreachable")
	}
}

// eventually polls a condition that has no signal, such as the health or the server's counters.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// single returns a Handle for a worker with Batch 1.
func single(f func(ctx context.Context, d *Delivery) Result) func(context.Context, []*Delivery) []Result {
	return func(ctx context.Context, batch []*Delivery) []Result { return []Result{f(ctx, batch[0])} }
}

func task(book playbook.Book, n int) *events.Task {
	e := &events.Task{Book: book, ID: "task-" + strconv.Itoa(n), Question: "what is " + strconv.Itoa(n) + "?"}
	return e
}

func execution(book playbook.Book, taskID string) *events.Execution {
	e := &events.Execution{Book: book, ID: events.ExecutionID(book, "", taskID, 0), RunID: taskID, Answer: "42"}
	return e
}

// answer returns the result of a generator for a task.
func answer(d *Delivery) Result {
	return Result{Events: []events.Event{execution(d.Event.InBook(), d.Event.(*events.Task).ID)}, ModelUseful: true}
}

func publish(t testing.TB, c *Conn, e events.Event) Receipt {
	t.Helper()
	r, err := c.Publish(t.Context(), e, PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func publishTasks(t testing.TB, c *Conn, book playbook.Book, n int) {
	t.Helper()
	for i := range n {
		publish(t, c, task(book, i))
	}
}

// await waits for the first n events of a stream and returns them.
func await(t testing.TB, c *Conn, stream string, n int) []Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	subject := "debrief.>"
	var all []Stored
	err := c.Events.Poll(ctx, stream, subject, 0, time.Millisecond, func(s Stored) error {
		if all = append(all, s); len(all) == n {
			return ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatalf("wait for %d events in %s, got %d: %v", n, stream, len(all), err)
	}
	return all
}

func letters(t testing.TB, c *Conn, n int) []*events.DeadLetter {
	t.Helper()
	var all []*events.DeadLetter
	for _, s := range await(t, c, events.StreamDead, n) {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
		all = append(all, s.Event.(*events.DeadLetter))
	}
	return all
}

func count(t testing.TB, c *Conn, stream string) int {
	t.Helper()
	s, err := c.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

func lag(t testing.TB, c *Conn, role string) Lag {
	t.Helper()
	l, err := c.Consumers.Lag(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// info returns the server's state of a role's durable.
func info(t testing.TB, c *Conn, role string) *jetstream.ConsumerInfo {
	t.Helper()
	cons, err := c.js.Consumer(t.Context(), streams.Input(role), role)
	if err != nil {
		t.Fatal(err)
	}
	return cons.CachedInfo()
}

// pulls returns the number of pull requests that wait for messages of a role.
func pulls(t testing.TB, c *Conn, role string) int {
	t.Helper()
	cons, err := c.js.Consumer(t.Context(), streams.Input(role), role)
	if err != nil {
		return 0 // not created yet
	}
	return cons.CachedInfo().NumWaiting
}

func awaitIdle(t testing.TB, c *Conn, role string) {
	t.Helper()
	eventually(t, role+" is idle", func() bool {
		idle, err := c.Consumers.Idle(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		return idle
	})
}

func health1(t testing.TB, c *Conn) RoleHealth {
	t.Helper()
	h := c.Health.Roles()
	if len(h) != 1 {
		return RoleHealth{}
	}
	return h[0]
}

func awaitState(t testing.TB, c *Conn, s State) RoleHealth {
	t.Helper()
	eventually(t, "health is "+string(s), func() bool { return health1(t, c).State == s })
	return health1(t, c)
}

// These errors have the behaviours of the adapters' errors.

type unavailableError struct{}

func (unavailableError) Error() string     { return "model does not answer" }
func (unavailableError) Unavailable() bool { return true }

// notSentError is the error of a request that was not sent to the model.
type notSentError struct{ unavailableError }

func (notSentError) Unasked() bool { return true }

type uselessError struct{}

func (uselessError) Error() string { return "no JSON in the answer" }
func (uselessError) Useless() bool { return true }

// falseError has every behaviour, and each returns false.
type falseError struct{}

func (falseError) Error() string     { return "denied" }
func (falseError) Unavailable() bool { return false }
func (falseError) Useless() bool     { return false }
func (falseError) Discard() bool     { return false }
func (falseError) Deferred() bool    { return false }

var errHandler = errors.New("handler failed")

// deliveryCounter counts deliveries by sequence.
type deliveryCounter struct {
	mu sync.Mutex
	n  map[uint64]int
}

func (c *deliveryCounter) add(seq uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[uint64]int)
	}
	c.n[seq]++
	return c.n[seq]
}

func (c *deliveryCounter) repeated() (seqs []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for seq, n := range c.n {
		if n > 1 {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
