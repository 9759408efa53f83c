package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/events/streams"
	"debrief/playbook"
)

func TestAttemptNumber(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		stored   attemptRecord
		delivery int
		want     int
	}{
		{"the first", attemptRecord{}, 1, 1},
		{"each counts where nothing is stored", attemptRecord{}, 4, 4},
		{"after a delivery that was none", attemptRecord{Delivered: 1}, 2, 1},
		{"after seven that were none", attemptRecord{Delivered: 9, Attempts: 2}, 11, 4},
		{"a durable created again", attemptRecord{Delivered: 9, Attempts: 2}, 1, 1},
		{"a server that fell back", attemptRecord{Delivered: 9, Attempts: 2}, 8, 3},
	} {
		if got := test.stored.number(test.delivery); got != test.want {
			t.Errorf("%s: delivery %d after %+v: got attempt %d, want %d", test.name, test.delivery, test.stored, got, test.want)
		}
	}
}

// loseDeliveries receives a message without an answer for the given number of deliveries, like workers that crash.
func loseDeliveries(t *testing.T, c *Conn, role string, times int) jetstream.Msg {
	t.Helper()
	cons, err := c.Consumers.open(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	var m jetstream.Msg
	for n := range times {
		if m, err = cons.Next(jetstream.FetchMaxWait(waitLimit)); err != nil {
			t.Fatal(err)
		}
		if md, err := m.Metadata(); err != nil || int(md.NumDelivered) != n+1 {
			t.Fatalf("got delivery %d (%v), want %d", md.NumDelivered, err, n+1)
		}
	}
	return m
}

// recordOf returns the stored attempt record of a message.
func recordOf(t *testing.T, c *Conn, role string, seq uint64) (a attemptRecord) {
	t.Helper()
	s, err := c.js.Stream(t.Context(), streams.Attempts)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), attemptsSubject(role, seq))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return a
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shortWaits returns a policy with a short ack wait, so that the messages of a lost worker are soon redelivered.
func shortWaits(attempts int) Policy {
	p := fastPolicy
	p.AckWait, p.MaxAttempts = 100*time.Millisecond, attempts
	return p
}

func TestCrashOnEveryAttemptStoresOneDeadLetter(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			srv := serve(t, natsd.Config{})
			c, other := open(t, srv, shortWaits(2)), open(t, srv, shortWaits(2))
			asked := task("main", 1)
			replies, err := c.nc.SubscribeSync(c.nc.NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Publish(t.Context(), asked, PublishOptions{ReplyTo: replies.Subject})
			if err != nil {
				t.Fatal(err)
			}
			m := loseDeliveries(t, c, events.RoleGenerator, 2)
			if batch > 1 { // the message was alone in both attempts
				record := fmt.Sprintf(`{"id":%q,"delivered":2,"attempts":2,"grouped":2}`, m.Headers().Get(nats.MsgIdHdr))
				if _, err := c.js.Publish(t.Context(), attemptsSubject(events.RoleGenerator, r.Seq), []byte(record)); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []*Conn{c, other} {
				start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) []Result {
					t.Error("message handled a third time")
					return make([]Result, len(b))
				}})
			}
			l := letters(t, c, 1)[0]
			if l.Code != events.DeadAttempts || l.Reason == "" || l.Attempts != 2 || l.Role != events.RoleGenerator || l.Seq != r.Seq || l.Subject != "debrief.task.main" || len(l.Data) == 0 {
				t.Errorf("got %+v", l)
			}
			if m, err := replies.NextMsg(waitLimit); err != nil || m.Header.Get(events.HeaderError) != l.Reason {
				t.Errorf("the requester got %v, %v; want the reason", m, err)
			}
			awaitIdle(t, c, events.RoleGenerator)
			if n, left := count(t, c, events.StreamDead), count(t, c, events.StreamTasks); n != 1 || left != 0 {
				t.Errorf("got %d dead letters and %d tasks, want 1 and 0", n, left)
			}
		})
	}
}

// TestCrashesWhileWarmCostNoAttempt lets workers crash more often than a message has attempts: first in the handler and then,
// when the message is handled in small groups, before it.
func TestCrashesWhileWarmCostNoAttempt(t *testing.T) {
	t.Parallel()
	const crashes = 8
	srv := serve(t, natsd.Config{})
	c := open(t, srv, shortWaits(4))
	publish(t, c, task("main", 1))
	// run runs a worker until one of its functions calls end: its connection closes, and nothing is stored or released.
	run := func(handle func(d *Delivery, end func()) Result, warm func(end func())) {
		nc, err := srv.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		end := func() {
			nc.Close()
			stop()
		}
		err = openOn(t, nc, shortWaits(4)).Run(ctx, Worker{
			Role: events.RoleGenerator, Batch: 4,
			Handle: func(_ context.Context, batch []*Delivery) []Result { return []Result{handle(batch[0], end)} },
			Warm:   func(context.Context, playbook.Book) { warm(end) },
		})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	warmed := 0
	for range crashes {
		run(func(_ *Delivery, end func()) Result {
			end()
			return Result{Err: errors.New("the worker crashes")}
		}, func(end func()) {
			warmed++
			end()
		})
	}
	if warmed < 4 {
		t.Fatalf("%d of %d workers crashed while warm, want at least 4", warmed, crashes)
	}
	start(t, c, Worker{
		Role: events.RoleGenerator, Batch: 4,
		Handle: func(_ context.Context, batch []*Delivery) []Result { return []Result{answer(batch[0])} },
		Warm:   func(context.Context, playbook.Book) { panic("a panic ends neither the worker nor the message") },
	})
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, events.StreamExecutions); n != 1 {
		t.Errorf("got %d executions, want 1; %d dead letters", n, count(t, c, events.StreamDead))
	}
}

// TestCrashesCostOnlyTheMessageAtFault lets workers crash while a message is in their batch. Only that one becomes a dead
// letter, though the others were lost in the same crashes.
func TestCrashesCostOnlyTheMessageAtFault(t *testing.T) {
	t.Parallel()
	const messages, fault = 16, 7 // as many as a group
	srv := serve(t, natsd.Config{})
	c := open(t, srv, shortWaits(4))
	for n := range messages {
		publish(t, c, task("main", n))
	}
	at := task("main", fault).EventID()
	var crashes, largest atomic.Int32
	run := func() {
		nc, err := srv.Connect()
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		defer nc.Close()
		worker := openOn(t, nc, shortWaits(4))
		go func() {
			for ctx.Err() == nil && count(t, c, events.StreamDead) == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			stop()
		}()
		err = worker.Run(ctx, Worker{Role: events.RoleGenerator, Batch: messages, Handle: func(_ context.Context, batch []*Delivery) []Result {
			largest.Store(max(largest.Load(), int32(len(batch))))
			results := make([]Result, len(batch))
			for i, d := range batch {
				if d.Event.EventID() == at { // the worker crashes: its connection closes, and nothing is stored or released
					crashes.Add(1)
					nc.Close()
					stop()
				}
				results[i] = answer(d)
			}
			return results
		}})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	for range 20 {
		if count(t, c, events.StreamDead) > 0 {
			break
		}
		run()
	}
	start(t, c, Worker{Role: events.RoleGenerator, Batch: messages, Handle: func(_ context.Context, batch []*Delivery) []Result {
		results := make([]Result, len(batch))
		for i, d := range batch {
			results[i] = answer(d)
		}
		return results
	}})
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, events.StreamExecutions); n != messages-1 {
		t.Errorf("got %d executions, want %d", n, messages-1)
	}
	if all := letters(t, c, 1); all[0].Seq != fault+1 || all[0].Code != events.DeadAttempts {
		t.Errorf("got the dead letter %+v, want one of message %d", all[0], fault)
	}
	if largest.Load() < 2 || crashes.Load() > 6 {
		t.Errorf("got batches of at most %d messages and %d crashes, want 2 or more and at most 6", largest.Load(), crashes.Load())
	}
}

func TestHoldAndReleaseAreNotAttempts(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("held, batch %d", batch), func(t *testing.T) {
			t.Parallel()
			srv := serve(t, natsd.Config{})
			for range 4 { // workers crash during the hold: their connections close, and they release nothing
				nc, err := srv.Connect()
				if err != nil {
					t.Fatal(err)
				}
				p := shortWaits(5)
				p.HoldInterval, p.ProbeInterval = time.Hour, time.Hour // a crash while the worker tries a held message again would count
				c := openOn(t, nc, p)
				if count(t, c, events.StreamTasks) == 0 {
					publish(t, c, task("main", 1))
				}
				before := recordOf(t, c, events.RoleGenerator, 1)
				var attempt atomic.Int32
				w := start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) []Result {
					attempt.Store(int32(b[0].Attempt))
					return []Result{{Err: notSentError{}}}
				}})
				eventually(t, "the hold is stored", func() bool {
					a := recordOf(t, c, events.RoleGenerator, 1)
					return a.Delivered > before.Delivered && a.Attempts == int(attempt.Load())-1
				})
				nc.Close()
				w.stop()
				<-w.done
			}
			c := open(t, srv, shortWaits(5))
			start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) []Result {
				// A crash while the worker tries a held message again counts.
				if b[0].Attempt > 3 || !b[0].Repeat {
					t.Errorf("after 4 holds got attempt %d, repeat %t, want the first, or few more, and a repeat", b[0].Attempt, b[0].Repeat)
				}
				return []Result{answer(b[0])}
			}})
			await(t, c, events.StreamExecutions, 1)
			awaitIdle(t, c, events.RoleGenerator)
		})
	}
	t.Run("given back at a stop", func(t *testing.T) {
		t.Parallel()
		srv := serve(t, natsd.Config{})
		const n = 300
		p := fastPolicy
		p.Grace = 50 * time.Millisecond
		c := open(t, srv, p)
		publishTasks(t, c, "main", n)
		for range 6 { // more than the limit of attempts
			begun := make(chan struct{}, n)
			w := start(t, c, Worker{Role: events.RoleGenerator, Batch: 64, Handle: func(ctx context.Context, b []*Delivery) []Result {
				begun <- struct{}{}
				<-ctx.Done()
				out := make([]Result, len(b))
				for i := range out {
					out[i].Err = ctx.Err()
				}
				return out
			}})
			within(t, begun, "not handled")
			w.stop()
			w.wait()
		}
		var most atomic.Int32
		start(t, c, Worker{Role: events.RoleGenerator, Batch: 64, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
			for _, d := range b {
				if most.Load() < int32(d.Attempt) {
					most.Store(int32(d.Attempt))
				}
				out = append(out, answer(d))
			}
			return out
		}})
		await(t, c, events.StreamExecutions, n)
		awaitIdle(t, c, events.RoleGenerator)
		// A delivery in transit at the end of a pull reaches no worker, and counts as an attempt.
		if n := most.Load(); n > 3 || count(t, c, events.StreamDead) != 0 {
			t.Errorf("after 6 stops got attempt %d and %d dead letters, want the first, or few more, and none", n, count(t, c, events.StreamDead))
		}
	})
}

// TestFirstDeliveryStoresNoRecord checks that the normal path needs no write.
func TestFirstDeliveryStoresNoRecord(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	start(t, c, Worker{Role: events.RoleGenerator, Slots: 4, Handle: single(func(_ context.Context, d *Delivery) Result { return answer(d) })})
	publishTasks(t, c, "main", 20)
	await(t, c, events.StreamExecutions, 20)
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, streams.Attempts); n != 0 {
		t.Errorf("got %d records", n)
	}
}

// TestRecordOfAnotherMessageIsIgnored: a stream that was created again uses the same sequences again.
func TestRecordOfAnotherMessageIsIgnored(t *testing.T) {
	t.Parallel()
	c := connectNew(t, shortWaits(3))
	data, err := json.Marshal(attemptRecord{ID: "another", Delivered: 7, Attempts: 0})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.js.Publish(t.Context(), attemptsSubject(events.RoleGenerator, 1), data); err != nil {
		t.Fatal(err)
	}
	publish(t, c, task("main", 1))
	loseDeliveries(t, c, events.RoleGenerator, 2)
	got := make(chan int, 1)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		got <- d.Attempt
		return answer(d)
	})})
	if n := within(t, got, "not handled"); n != 3 {
		t.Errorf("got attempt %d, want 3", n)
	}
}

func TestNewerSchemaIsDeadLetteredAndNamed(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 4} {
		t.Run(fmt.Sprintf("batch %d", batch), func(t *testing.T) {
			t.Parallel()
			c := open(t, serve(t, natsd.Config{}), fastPolicy)
			start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
				for _, d := range b {
					out = append(out, answer(d))
				}
				return out
			}})
			for range 2 {
				m := &nats.Msg{Subject: "debrief.task.main", Header: nats.Header{events.HeaderSchema: {"2"}}, Data: []byte("whatever comes")}
				if _, err := c.js.PublishMsg(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			publishTasks(t, c, "main", 5)
			await(t, c, events.StreamExecutions, 5)
			awaitIdle(t, c, events.RoleGenerator)
			var all []*Letter
			if err := c.DeadLetters.List(t.Context(), LetterFilter{}, func(l *Letter) error { all = append(all, l); return nil }); err != nil || len(all) != 2 {
				t.Fatalf("got %d letters (%v), want 2", len(all), err)
			}
			for _, l := range all {
				if l.Code != events.DeadNewerSchema || string(l.Data) != "whatever comes" || l.Header[events.HeaderSchema][0] != "2" {
					t.Errorf("got %+v", l.DeadLetter)
				}
			}
			for _, l := range all {
				b, err := c.Consumers.Backlog(t.Context(), events.RoleGenerator)
				if err != nil || !strings.Contains(b.Outdated, string(l.Handle())) {
					t.Errorf("got %q, %v, want the letter %s", b.Outdated, err, l.Handle())
				}
				if err := c.DeadLetters.Drop(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			if b, err := c.Consumers.Backlog(t.Context(), events.RoleGenerator); err != nil || b.Outdated != "" {
				t.Errorf("got %q, %v after the drop of all letters", b.Outdated, err)
			}
		})
	}
}

// TestModelFailureAfterUsefulOutputLosesNoMessage: useful output before the failure is no evidence against later
// messages.
func TestModelFailureAfterUsefulOutputLosesNoMessage(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	var broken atomic.Bool
	var calls atomic.Int32
	start(t, c, Worker{Role: events.RoleGenerator, Slots: 4, Handle: single(func(_ context.Context, d *Delivery) Result {
		if broken.Load() {
			calls.Add(1)
			return Result{Err: uselessError{}}
		}
		return answer(d)
	})})
	publishTasks(t, c, "main", 20)
	await(t, c, events.StreamExecutions, 20)
	broken.Store(true)
	for i := range 4 { // one by one: each uses all its attempts before the next arrives
		publish(t, c, task("later", 100+i))
		before := calls.Load()
		eventually(t, "tried again", func() bool { return calls.Load() >= before+3 })
	}
	awaitState(t, c, Paused)
	if n := count(t, c, events.StreamDead); n != 0 {
		t.Errorf("%d dead letters while no output was useful", n)
	}
	broken.Store(false)
	await(t, c, events.StreamExecutions, 24)
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, events.StreamDead); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// TestWaitForAnotherMessageIsNoAttempt: a message that waits is delivered more often than it may be tried, beside a message
// that fails.
func TestWaitForAnotherMessageIsNoAttempt(t *testing.T) {
	t.Parallel()
	p := fastPolicy
	p.MaxAttempts, p.BackoffMin, p.BackoffMax = 3, 5*time.Millisecond, 5*time.Millisecond
	c := connectNew(t, p)
	var mu sync.Mutex
	waits := 0
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		mu.Lock()
		defer mu.Unlock()
		if d.Event.(*events.Task).ID == "task-1" {
			return Result{Err: errHandler}
		}
		if waits++; d.Attempt != 1 {
			t.Errorf("delivery %d of the message that waits is attempt %d, want 1", waits, d.Attempt)
		}
		if waits <= 10 {
			return Result{Err: fmt.Errorf("not yet: %w", Defer(errHandler))}
		}
		return Result{}
	})})
	publishTasks(t, c, "main", 2)
	if l := letters(t, c, 1)[0]; l.Attempts != 3 {
		t.Errorf("got a dead letter after %d attempts, want 3", l.Attempts)
	}
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, events.StreamTasks); n != 0 || waits != 11 {
		t.Errorf("%d messages left after %d waits, want none after 11", n, waits)
	}
	if n := len(letters(t, c, 1)); n != 1 {
		t.Errorf("got %d dead letters, want one", n)
	}
	if h := health1(t, c); h.State != Running {
		t.Errorf("health: got %+v, want running", h)
	}
}
