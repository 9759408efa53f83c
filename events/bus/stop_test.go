package bus

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/natsd"
)

func TestStopWaitsForMessagesInFlight(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	begun, release := make(chan struct{}), make(chan struct{})
	w := start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(ctx context.Context, d *Delivery) Result {
		close(begun)
		<-release
		if ctx.Err() != nil {
			t.Errorf("the handler was cancelled within the grace: %v", context.Cause(ctx))
		}
		return answer(d)
	})})
	publish(t, c, task("main", 1))
	within(t, begun, "not begun")
	w.stop()
	eventually(t, "the pull is closed", func() bool { return pulls(t, c, events.RoleGenerator) == 0 })
	publish(t, c, task("main", 2)) // too late for this worker
	select {
	case <-w.done:
		t.Error("Run returned with work in flight")
	default:
	}
	close(release)
	w.wait()
	if n := count(t, c, events.StreamExecutions); n != 1 {
		t.Errorf("got %d executions, want 1", n)
	}
	eventually(t, "the first is acked and the second untouched", func() bool {
		i := info(t, c, events.RoleGenerator)
		return i.NumAckPending == 0 && i.NumPending == 1 && i.Delivered.Consumer == 1
	})
}

// A person who interrupts a program does not wait for a model: the handler is cancelled before the grace period ends, and the
// message is redelivered.
func TestInterruptCancelsHandlers(t *testing.T) {
	t.Parallel()
	p := fastPolicy
	p.Grace = time.Hour
	c := connectNew(t, p)
	publish(t, c, task("main", 1))
	ctx, interrupt := context.WithCancelCause(context.Background())
	begun := make(chan struct{})
	w := startFunc(t, func(context.Context) error {
		return c.Run(ctx, Worker{Role: events.RoleGenerator, Handle: single(func(ctx context.Context, d *Delivery) Result {
			close(begun)
			<-ctx.Done()
			return Result{Err: ctx.Err()}
		})})
	})
	within(t, begun, "not begun")
	interrupt(ErrInterrupted)
	w.wait()
	next := start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		if d.Attempt != 1 {
			t.Errorf("got attempt %d, want 1: the interrupted one does not count", d.Attempt)
		}
		return answer(d)
	})})
	eventually(t, "the message is answered", func() bool { return count(t, c, events.StreamExecutions) == 1 })
	next.stop()
}

func TestStopReleasesMessagesNotStarted(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	c, other := open(t, srv, fastPolicy), open(t, srv, fastPolicy)
	begun, release := make(chan struct{}, 9), make(chan struct{})
	w := start(t, c, Worker{Role: events.RoleGenerator, Batch: 4, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
		begun <- struct{}{}
		<-release
		for _, d := range b {
			out = append(out, answer(d))
		}
		return out
	}})
	publish(t, c, task("first", 1))
	within(t, begun, "not begun")
	for i := range 3 {
		publish(t, c, task("first", i+2))
		publish(t, c, task("second", i))
	}
	eventually(t, "all are held", func() bool { return lag(t, c, events.RoleGenerator).InFlight == 7 })
	w.stop()
	start(t, other, Worker{Role: events.RoleGenerator, Slots: 6, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	await(t, other, events.StreamExecutions, 6) // while the first is in progress, and long before its ack wait ends
	close(release)
	w.wait()
	await(t, other, events.StreamExecutions, 7)
	awaitIdle(t, other, events.RoleGenerator)
	if n := count(t, other, events.StreamExecutions); n != 7 {
		t.Errorf("got %d executions, want 7", n)
	}
}

func TestHandlersAreCancelledAfterGrace(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	p := fastPolicy
	p.Grace = 50 * time.Millisecond
	c, other := open(t, srv, p), open(t, srv, p)
	begun := make(chan struct{})
	cause := make(chan error, 1)
	w := start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(ctx context.Context, d *Delivery) Result {
		close(begun)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return Result{Err: ctx.Err()}
	})})
	publish(t, c, task("main", 1))
	within(t, begun, "not begun")
	w.stop()
	if took := w.wait(); took < p.Grace || took > p.Grace+2*time.Second {
		t.Errorf("Run took %s to return, want the grace of %s", took, p.Grace)
	}
	if err := within(t, cause, "no cause"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got cause %v, want one that tells the grace from a plain cancellation", err)
	}
	start(t, other, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	await(t, other, events.StreamExecutions, 1)
}

func TestIdleWorkerStopsPromptly(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]Worker{"single": {Slots: 4}, "batch": {Batch: 256}} {
		best := time.Hour
		for range 5 { // a busy machine may need several tries
			c := connectNew(t, fastPolicy)
			w.Role = events.RoleReflector
			r := start(t, c, w)
			eventually(t, "it pulls", func() bool { return pulls(t, c, events.RoleReflector) == 1 })
			r.stop()
			if best = min(best, r.wait()); best < 100*time.Millisecond {
				break
			}
		}
		if best > 100*time.Millisecond {
			t.Errorf("%s: Run took %s to return", name, best)
		}
	}
}

func TestStopDuringArrivalsConsumesAtMostOneDelivery(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]Worker{"single": {Slots: 3}, "batch": {Batch: 16, Slots: 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, natsd.Config{})
			p := fastPolicy
			p.AckWait = 5 * time.Second // rarely the server sends a message to a closed pull and redelivers it after the ack wait
			const n, rounds = 200, 6
			p.MaxAttempts = 2 * rounds // each stop may consume a delivery of the same message
			c := open(t, srv, p)
			var seen deliveryCounter
			var stops atomic.Int32
			w.Role = events.RoleGenerator
			w.Handle = func(_ context.Context, b []*Delivery) (out []Result) {
				for _, d := range b {
					seen.add(d.Seq)
					if n := int(stops.Load()); d.Attempt > n+1 {
						t.Errorf("task %d is at delivery %d after %d stops", d.Seq, d.Attempt, n)
					}
					out = append(out, answer(d))
				}
				return out
			}
			published := startFunc(t, func(context.Context) error {
				for i := range n {
					publish(t, c, task("main", i))
				}
				return nil
			})
			for i := range rounds {
				r := start(t, c, w)
				want := i * n / rounds
				eventually(t, "some are handled", func() bool { return count(t, c, events.StreamExecutions) >= want })
				stops.Add(1)
				r.stop()
				r.wait()
			}
			published.wait()
			start(t, c, w)
			await(t, c, events.StreamExecutions, n)
			awaitIdle(t, c, events.RoleGenerator)
			if got := seen.repeated(); len(got) > 0 || count(t, c, events.StreamExecutions) != n {
				t.Errorf("handled more than once: %v; %d executions, want %d", got, count(t, c, events.StreamExecutions), n)
			}
			t.Logf("%d deliveries of %d messages over %d stops", info(t, c, events.RoleGenerator).Delivered.Consumer, n, rounds)
		})
	}
}

func TestKeepAliveOutlastsTheAckWait(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	srv := serve(t, natsd.Config{})
	p := fastPolicy
	p.AckWait = time.Second // three signs of life in it: a busy machine may miss one
	c, other := open(t, srv, p), open(t, srv, p)
	var seen deliveryCounter
	handle := single(func(_ context.Context, d *Delivery) Result {
		seen.add(d.Seq)
		time.Sleep(3 * p.AckWait) // a slow model; the duration is under test
		return answer(d)
	})
	start(t, c, Worker{Role: events.RoleGenerator, Handle: handle})
	start(t, other, Worker{Role: events.RoleGenerator, Slots: 2, Handle: handle})
	publishTasks(t, c, "main", 3)
	await(t, c, events.StreamExecutions, 3)
	awaitIdle(t, c, events.RoleGenerator)
	if i := info(t, c, events.RoleGenerator); i.Delivered.Consumer != 3 || len(seen.repeated()) > 0 {
		t.Errorf("got %d deliveries of 3, handled again: %v", i.Delivered.Consumer, seen.repeated())
	}
}

func TestServerRestartLosesNoMessage(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]Worker{"single": {Slots: 2}, "batch": {Batch: 8, Slots: 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			srv := serve(t, natsd.Config{Dir: dir, Listen: "127.0.0.1:0"})
			url := srv.URL()
			dial := func() *Conn {
				nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(nc.Close)
				p := fastPolicy
				p.AckWait = time.Second // an ack in transit is lost with the connection
				return openOn(t, nc, p)
			}
			producer, c := dial(), dial()
			const n = 40
			var atWork atomic.Int32
			half, release := make(chan struct{}), make(chan struct{})
			w.Role = events.RoleGenerator
			w.Handle = func(_ context.Context, b []*Delivery) (out []Result) {
				for _, d := range b {
					if atWork.Add(1) == n/2 { // in progress while the server restarts
						close(half)
						<-release
					}
					out = append(out, answer(d))
				}
				return out
			}
			r := start(t, c, w)
			publishTasks(t, producer, "main", n/2)
			within(t, half, "not half of it handled")
			srv.Close()
			eventually(t, "noticed", func() bool { return !c.nc.IsConnected() && !producer.nc.IsConnected() })
			serve(t, natsd.Config{Dir: dir, Listen: strings.TrimPrefix(url, "nats://")})
			close(release)
			eventually(t, "reconnected", func() bool { return producer.nc.IsConnected() && c.nc.IsConnected() })
			for i := range n / 2 {
				publish(t, producer, task("main", n/2+i))
			}
			began := time.Now()
			distinct := map[string]bool{}
			ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
			defer cancel()
			err := producer.Events.Poll(ctx, events.StreamExecutions, "debrief.>", 0, time.Millisecond, func(s Stored) error {
				if distinct[s.Event.(*events.Execution).RunID] = true; len(distinct) == n {
					return ErrStop
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%d of %d: %v", len(distinct), n, err)
			}
			t.Logf("all there %s after the restart", time.Since(began))
			awaitIdle(t, producer, events.RoleGenerator)
			if h := awaitState(t, c, Running); !h.Healthy() || count(t, producer, events.StreamDead) != 0 {
				t.Errorf("health %+v, %d dead letters", h, count(t, producer, events.StreamDead))
			}
			r.stop()
			r.wait()
		})
	}
}

func TestStopWithoutServerIsBounded(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]Worker{"single": {Slots: 2}, "batch": {Batch: 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := serve(t, natsd.Config{Listen: "127.0.0.1:0"})
			nc, err := nats.Connect(srv.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			c := openOn(t, nc, fastPolicy)
			w.Role = events.RoleGenerator
			w.Handle = func(context.Context, []*Delivery) []Result { return nil }
			r := start(t, c, w)
			eventually(t, "it pulls", func() bool { return pulls(t, c, events.RoleGenerator) == 1 })
			srv.Close()
			eventually(t, "noticed", func() bool { return !nc.IsConnected() })
			r.stop()
			if took := r.wait(); took > 3*time.Second {
				t.Errorf("Run took %s to return", took)
			}
		})
	}
}
