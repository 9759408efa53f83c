package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/natsd"
)

func TestUnreachableModelConsumesNoAttempt(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			p := fastPolicy
			p.AckWait, p.MaxAttempts, p.ProbeInterval = 300*time.Millisecond, 2, time.Hour
			c := connectNew(t, p)
			var back atomic.Bool
			var calls atomic.Int32
			var attempts deliveryCounter
			start(t, c, Worker{Role: events.RoleGenerator, Slots: 2, Batch: batch, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
				calls.Add(1)
				for _, d := range b {
					if !back.Load() {
						out = append(out, Result{Err: fmt.Errorf("ask: %w", unavailableError{})})
						continue
					}
					attempts.add(d.Seq)
					if d.Attempt != 1 || d.Repeat {
						t.Errorf("task %d: attempt %d, repeat %t", d.Seq, d.Attempt, d.Repeat)
					}
					out = append(out, answer(d))
				}
				return out
			}})
			publish(t, c, task("main", 1))
			h := awaitState(t, c, Unavailable)
			if !strings.Contains(h.Reason, unavailableError{}.Error()) || h.Healthy() {
				t.Errorf("got %+v", h)
			}
			eventually(t, "the pull is closed", func() bool { return pulls(t, c, events.RoleGenerator) == 0 })
			for i := range 5 {
				publish(t, c, task("main", i+2))
			}
			tried := calls.Load()
			held := time.Now()
			eventually(t, "tried again, past the ack wait", func() bool { return calls.Load() > tried+2 && time.Since(held) > 2*p.AckWait })
			if i := info(t, c, events.RoleGenerator); i.NumPending != 5 || i.NumAckPending != 1 || i.NumRedelivered != 0 || i.Delivered.Consumer != 1 {
				t.Errorf("meanwhile: %d not pulled, %d held, %d redelivered, %d deliveries; want 5, 1, 0, 1", i.NumPending, i.NumAckPending, i.NumRedelivered, i.Delivered.Consumer)
			}
			back.Store(true)
			await(t, c, events.StreamExecutions, 6)
			awaitState(t, c, Running)
			awaitIdle(t, c, events.RoleGenerator)
			if got := attempts.repeated(); len(got) > 0 || count(t, c, events.StreamDead) != 0 {
				t.Errorf("handled again: %v; %d dead letters", got, count(t, c, events.StreamDead))
			}
		})
	}
}

func TestPromptThatCrashesModelDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			p := fastPolicy
			p.MaxAttempts = 2
			c := connectNew(t, p)
			start(t, c, Worker{Role: events.RoleGenerator, Slots: 2, Batch: batch, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
				for _, d := range b {
					if d.Event.InBook() == "poison" {
						out = append(out, Result{Err: fmt.Errorf("ask: %w", unavailableError{})})
					} else {
						out = append(out, answer(d))
					}
				}
				return out
			}})
			publish(t, c, task("poison", 1))
			awaitState(t, c, Unavailable)
			for i := range 5 {
				publish(t, c, task("main", i+2))
			}
			await(t, c, events.StreamExecutions, 5)
			await(t, c, events.StreamDead, 1)
			awaitState(t, c, Running)
			awaitIdle(t, c, events.RoleGenerator)
		})
	}
}

// A message that an open circuit breaker rejects again and again is not at fault, even if others succeed meanwhile.
func TestRequestNotSentConsumesNoAttempt(t *testing.T) {
	t.Parallel()
	p := fastPolicy
	p.MaxAttempts = 2
	c := connectNew(t, p)
	var turnedAway, again atomic.Int32
	start(t, c, Worker{Role: events.RoleGenerator, Slots: 2, Handle: single(func(_ context.Context, d *Delivery) Result {
		if d.Attempt > 1 { // the server also counts redeliveries after late signs of life on a busy machine
			again.Add(1)
		}
		if d.Event.InBook() == "unlucky" && turnedAway.Add(1) <= 6 {
			return Result{Err: fmt.Errorf("ask: %w", notSentError{})}
		}
		return answer(d)
	})})
	publish(t, c, task("unlucky", 1))
	awaitState(t, c, Unavailable)
	eventually(t, "the pull is closed", func() bool { return pulls(t, c, events.RoleGenerator) <= 1 }) // one may try another message
	for i := range 5 {
		publish(t, c, task("main", i+2))
	}
	await(t, c, events.StreamExecutions, 6)
	awaitIdle(t, c, events.RoleGenerator)
	if again.Load() != 0 || count(t, c, events.StreamDead) != 0 {
		t.Errorf("%d were delivered again, %d dead letters, want none of either", again.Load(), count(t, c, events.StreamDead))
	}
}

func TestHeldMessagesAreReleasedAtStop(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	c, other := open(t, srv, fastPolicy), open(t, srv, fastPolicy)
	w := start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(context.Context, *Delivery) Result {
		return Result{Err: unavailableError{}}
	})})
	publish(t, c, task("main", 1))
	awaitState(t, c, Unavailable)
	w.stop()
	w.wait()
	if h := health1(t, c); h.State != Stopped {
		t.Errorf("got %+v, want stopped", h)
	}
	start(t, other, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	await(t, other, events.StreamExecutions, 1)
}

func TestUselessOutputPausesRoleUntilUsefulOutput(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			c := connectNew(t, fastPolicy)
			var good atomic.Bool
			var mu sync.Mutex
			var probes []int               // messages of each call during the pause
			publishTasks(t, c, "main", 24) // before the worker starts: a slow machine would otherwise repeat the first ones earlier
			start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
				mu.Lock()
				if health1(t, c).State == Paused {
					probes = append(probes, len(b))
				}
				mu.Unlock()
				for _, d := range b {
					// 4 succeed before the model fails.
					if n := d.Seq; n <= 4 || good.Load() {
						out = append(out, answer(d))
					} else {
						out = append(out, Result{Err: uselessError{}})
					}
				}
				return out
			}})
			h := awaitState(t, c, Paused)
			// A slow machine repeats the first messages before it has handled all: then fewer are enough.
			if !strings.Contains(h.Reason, uselessError{}.Error()) || h.Healthy() {
				t.Errorf("got %+v", h)
			}
			publishTasks(t, c, "later", 6)
			eventually(t, "three probes", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(probes) >= 3
			})
			mu.Lock()
			if slices.Max(probes) > 1 {
				t.Errorf("got probes of %d messages, want one message each", probes)
			}
			mu.Unlock()
			if n := count(t, c, events.StreamExecutions); n != 4 {
				t.Errorf("while paused: %d executions, want the first 4", n)
			}
			good.Store(true)
			awaitState(t, c, Running)
			eventually(t, "all is handled", func() bool { return lag(t, c, events.RoleGenerator).Idle() })
			executions, dead := count(t, c, events.StreamExecutions), count(t, c, events.StreamDead)
			if executions != 30 || dead != 0 {
				t.Errorf("%d executions and %d dead letters, want 30 and none", executions, dead)
			}
		})
	}
}

func TestFewMessagesPauseRoleBeforeLastAttempt(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			p := fastPolicy
			p.BackoffMin, p.BackoffMax, p.ProbeInterval, p.Linger = 5*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond, 2*time.Millisecond
			c := connectNew(t, p)
			var good atomic.Bool
			var calls atomic.Int32
			start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
				calls.Add(1)
				for _, d := range b {
					if good.Load() {
						out = append(out, answer(d))
					} else {
						out = append(out, Result{Err: uselessError{}})
					}
				}
				return out
			}})
			publishTasks(t, c, "main", 3)
			awaitState(t, c, Paused)
			paused := calls.Load()
			// A message has five attempts, and five more before it becomes a dead letter without useful output for another one.
			eventually(t, "more probes than there are attempts", func() bool { return calls.Load() > 3*5 })
			if h := health1(t, c); !h.Misconfigured {
				t.Errorf("got %+v; want misconfigured: no output was useful", h)
			}
			good.Store(true)
			if h := awaitState(t, c, Running); h.Misconfigured {
				t.Errorf("got %+v; want not misconfigured after a useful output", h)
			}
			awaitIdle(t, c, events.RoleGenerator)
			if n, dead := count(t, c, events.StreamExecutions), count(t, c, events.StreamDead); n != 3 || dead != 0 {
				t.Errorf("%d executions, %d dead letters, want 3 and none", n, dead)
			}
			good.Store(false)
			publishTasks(t, c, "other", 3)
			awaitState(t, c, Paused)
			paused = calls.Load()
			eventually(t, "several probes", func() bool { return calls.Load() > paused+5 })
			if h := health1(t, c); h.Misconfigured {
				t.Errorf("got %+v; want not misconfigured, because earlier outputs were useful", h)
			}
		})
	}
}

func TestUsefulOutputIdentifiesPoisonMessages(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			t.Parallel()
			c := connectNew(t, fastPolicy)
			var attempts deliveryCounter
			start(t, c, Worker{Role: events.RoleGenerator, Slots: slots, Handle: single(func(_ context.Context, d *Delivery) Result {
				if d.Event.InBook() == "poison" {
					attempts.add(d.Seq)
					return Result{Err: uselessError{}}
				}
				return answer(d)
			})})
			publishTasks(t, c, "poison", 5)
			awaitState(t, c, Paused)
			for i := range 10 {
				publish(t, c, task("main", 100+i))
			}
			await(t, c, events.StreamExecutions, 10)
			for _, l := range letters(t, c, 5) {
				if l.Book != "poison" || l.Attempts != 5 || l.Code != events.DeadUseless {
					t.Errorf("got %+v", l)
				}
			}
			awaitState(t, c, Running)
			awaitIdle(t, c, events.RoleGenerator)
			if n, dead := count(t, c, events.StreamExecutions), count(t, c, events.StreamDead); n != 10 || dead != 5 {
				t.Errorf("%d executions, %d dead letters, want 10 and 5", n, dead)
			}
		})
	}
}

func TestOccasionalUselessOutputDoesNotPause(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := connectNew(t, fastPolicy)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		switch {
		case d.Seq%4 == 0 || d.Event.InBook() == "good": // a quarter is useful
			return answer(d)
		case d.Seq%20 == 1 && d.Attempt == 1: // does not count
			return Result{Err: errHandler}
		}
		return Result{Err: uselessError{}}
	})})
	publishTasks(t, c, "main", 60)
	more := 0
	eventually(t, "all messages are acknowledged, as useful output goes on", func() bool {
		publish(t, c, task("good", 100+more))
		more++
		return count(t, c, events.StreamDead) == 45
	})
	awaitIdle(t, c, events.RoleGenerator)
	if h := health1(t, c); h.State != Running {
		t.Errorf("got %+v", h)
	}
	if n := count(t, c, events.StreamExecutions); n != 15+more {
		t.Errorf("got %d executions, want %d", n, 15+more)
	}
}

// fill stores executions until the server rejects one, and returns that error.
func fill(t *testing.T, c *Conn) error {
	t.Helper()
	for i := range 64 {
		e := execution("filler", fmt.Sprint("filler-", i))
		e.Answer = strings.Repeat("x", 100<<10)
		if _, err := c.Publish(t.Context(), e, PublishOptions{}); err != nil {
			return err
		}
	}
	t.Fatal("the store is never full")
	return nil
}

func purge(t *testing.T, c *Conn, stream string) {
	t.Helper()
	s, err := c.js.Stream(t.Context(), stream)
	if err == nil {
		err = s.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFullStoreFailsProducersAndHoldsWorkers(t *testing.T) {
	t.Parallel()
	c := open(t, serve(t, natsd.Config{MaxStore: 1 << 20}), fastPolicy)
	var calls atomic.Int32
	release := make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		calls.Add(1)
		<-release
		r := answer(d)
		r.Events[0].(*events.Execution).Answer = strings.Repeat("y", 100<<10)
		return r
	})})
	publish(t, c, task("main", 1))
	eventually(t, "in work", func() bool { return calls.Load() == 1 })

	err := fill(t, c)
	var refused *FullError
	if !errors.As(err, &refused) || refused.RetryAfter() <= 0 {
		t.Fatalf("got %v, want a *FullError that says when to try again", err)
	}
	close(release)
	h := awaitState(t, c, Unavailable)
	if !strings.Contains(h.Reason, "full") {
		t.Errorf("got %+v", h)
	}
	if l := lag(t, c, events.RoleGenerator); l.InFlight != 1 || count(t, c, events.StreamTasks) != 1 {
		t.Errorf("while full: %+v, %d tasks; want the task kept", l, count(t, c, events.StreamTasks))
	}
	purge(t, c, events.StreamExecutions)
	awaitState(t, c, Running)
	awaitIdle(t, c, events.RoleGenerator)
	s := await(t, c, events.StreamExecutions, 1)[0]
	if got := s.Event.(*events.Execution).RunID; got != "task-1" || calls.Load() != 1 {
		t.Errorf("got the output of %s after %d calls of the handler, want task-1 after one", got, calls.Load())
	}
	if i := info(t, c, events.RoleGenerator); i.Delivered.Consumer != 1 {
		t.Errorf("got %d deliveries, want 1", i.Delivered.Consumer)
	}
}

func TestMessageIsHeldUntilDeadLetterIsStored(t *testing.T) {
	t.Parallel()
	c := open(t, serve(t, natsd.Config{MaxStore: 1 << 20}), fastPolicy)
	release := make(chan struct{})
	started := make(chan struct{}, 1)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(context.Context, *Delivery) Result {
		started <- struct{}{} // a second call would block
		<-release
		return Result{Err: Discard(errHandler)}
	})})
	e := task("main", 1)
	e.Context = strings.Repeat("z", 100<<10)
	publish(t, c, e)
	within(t, started, "not handled")
	_ = fill(t, c)
	close(release)
	awaitState(t, c, Unavailable)
	if n := count(t, c, events.StreamTasks); n != 1 {
		t.Errorf("while full the queue holds %d, want the task", n)
	}
	purge(t, c, events.StreamExecutions)
	if l := letters(t, c, 1)[0]; l.Code != events.DeadInvalid || l.Reason != errHandler.Error() || l.Attempts != 1 {
		t.Errorf("got %+v", l)
	}
	awaitIdle(t, c, events.RoleGenerator)
}

func TestPartlyStoredOutputsAreNotStoredTwice(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(n int64) {
		t.Helper()
		cfg := s.CachedInfo().Config
		cfg.MaxMsgs = n
		cfg.Duplicates = 100 * time.Millisecond // shorter than the hold, so that the server has forgotten the first id
		if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(context.Context, *Delivery) Result {
		return Result{Events: []events.Event{execution("main", "a"), execution("main", "b")}}
	})})
	publish(t, c, task("main", 1))
	awaitState(t, c, Unavailable)
	time.Sleep(200 * time.Millisecond)
	limit(-1)
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, events.StreamExecutions); n != 2 {
		t.Errorf("got %d executions, want 2", n)
	}
	for seq := uint64(1); seq <= 2; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get(events.HeaderRepeat) != "" {
			t.Errorf("%d is marked as a repeat; a refusal leaves no doubt", seq)
		}
	}
}

func TestOutputInDoubtIsMarkedAsRepeat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := connectNew(t, fastPolicy)
	if err := c.js.DeleteStream(t.Context(), events.StreamExecutions); err != nil { // no answer to a publish
		t.Fatal(err)
	}
	var calls atomic.Int32
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		calls.Add(1)
		return answer(d)
	})})
	publish(t, c, task("main", 1))
	awaitState(t, c, Unavailable)
	if err := c.ensure(t.Context(), Options{}); err != nil {
		t.Fatal(err)
	}
	await(t, c, events.StreamExecutions, 1)
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get(events.HeaderRepeat) == "" || calls.Load() != 1 {
		t.Errorf("headers %v after %d calls of the handler, want a mark and one call", m.Header, calls.Load())
	}
}

func TestRoleRecoversWhenStreamIsRecreated(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := connectNew(t, fastPolicy)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	publish(t, c, task("main", 1))
	await(t, c, events.StreamExecutions, 1)
	if err := c.js.DeleteConsumer(t.Context(), events.StreamTasks, events.RoleGenerator); err != nil {
		t.Fatal(err)
	}
	publish(t, c, task("main", 2))
	await(t, c, events.StreamExecutions, 2)
	if err := c.js.DeleteStream(t.Context(), events.StreamTasks); err != nil {
		t.Fatal(err)
	}
	if h := awaitState(t, c, Unavailable); !strings.Contains(h.Reason, events.StreamTasks) {
		t.Errorf("got %+v", h)
	}
	if err := c.ensure(t.Context(), Options{}); err != nil {
		t.Fatal(err)
	}
	awaitState(t, c, Running)
	publish(t, c, task("main", 3))
	await(t, c, events.StreamExecutions, 3)
}
