package bus

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/natsd"
)

func TestAckFollowsTheStoredOutput(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	atAck := make(chan int, 1)
	spy, err := c.nc.Subscribe("$JS.ACK.TASKS.generator.>", func(m *nats.Msg) {
		if string(m.Data) == "+ACK" {
			atAck <- count(t, c, events.StreamExecutions)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Unsubscribe()
	release := make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		<-release
		return answer(d)
	})})
	publish(t, c, task("main", 1))
	eventually(t, "in work", func() bool { return lag(t, c, events.RoleGenerator).InFlight == 1 })
	if n := count(t, c, events.StreamTasks); n != 1 {
		t.Errorf("while in work the queue holds %d tasks, want 1", n)
	}
	close(release)
	if n := within(t, atAck, "no ack"); n != 1 {
		t.Errorf("at the ack %d executions were stored, want 1", n)
	}
	awaitIdle(t, c, events.RoleGenerator)
	if n := count(t, c, events.StreamTasks); n != 0 {
		t.Errorf("after the ack the queue holds %d tasks", n)
	}
}

func TestOutputsAreStoredInOrder(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		return Result{Events: []events.Event{execution("main", "a"), execution("main", "b"), execution("main", "c")}}
	})})
	publish(t, c, task("main", 1))
	for i, s := range await(t, c, events.StreamExecutions, 3) {
		if got, want := s.Event.(*events.Execution).RunID, string(rune('a'+i)); got != want {
			t.Errorf("execution %d: got %s, want %s", i, got, want)
		}
	}
}

func TestFailedDeliveriesBackOffAndEndAsDeadLetter(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() Result{
		"error": func() Result { return Result{Err: errHandler} },
		"panic": func() Result { panic(errHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fastPolicy
			p.BackoffMin, p.BackoffMax, p.MaxAttempts = 60*time.Millisecond, 90*time.Millisecond, 3
			c := connectNew(t, p)
			var at []time.Time
			var attempts []int
			var repeats []bool
			start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
				at, attempts, repeats = append(at, time.Now()), append(attempts, d.Attempt), append(repeats, d.Repeat)
				return fail()
			})})
			r := publish(t, c, task("main", 1))
			original, err := c.js.Stream(t.Context(), events.StreamTasks)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := original.GetMsg(t.Context(), r.Seq)
			if err != nil {
				t.Fatal(err)
			}
			l := letters(t, c, 1)[0]
			awaitIdle(t, c, events.RoleGenerator)

			if fmt.Sprint(attempts, repeats) != "[1 2 3] [false true true]" {
				t.Errorf("got deliveries %v, repeats %v", attempts, repeats)
			}
			for i, least := range []time.Duration{60 * time.Millisecond, 90 * time.Millisecond} {
				if got := at[i+1].Sub(at[i]); got < least {
					t.Errorf("delivery %d came %s after the one before, want at least %s", i+2, got, least)
				}
			}
			if l.Code != events.DeadError || !strings.Contains(l.Reason, errHandler.Error()) || l.Role != events.RoleGenerator || l.Attempts != 3 || l.Stream != events.StreamTasks || l.Seq != r.Seq || l.Book != "main" {
				t.Errorf("got letter %+v", l)
			}
			if string(l.Data) != string(raw.Data) || l.Subject != raw.Subject || l.Header[events.HeaderSchema][0] != "1" {
				t.Errorf("the letter is not the original: %q under %s with %v", l.Data, l.Subject, l.Header)
			}
			if n := count(t, c, events.StreamTasks); n != 0 {
				t.Errorf("the queue still holds %d", n)
			}
			if h := health1(t, c); h.State != Running {
				t.Errorf("health: got %+v, want running", h)
			}
		})
	}
}

func TestUnreadableMessagesAreDeadLetteredAtOnce(t *testing.T) {
	t.Parallel()
	schema := nats.Header(events.SchemaHeader())
	invalid, err := events.Marshal(&events.Task{ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*nats.Msg{
		"id with no question": {Subject: "debrief.task.main", Header: schema, Data: invalid},
		"undecodable":         {Subject: "debrief.task.main", Header: schema, Data: []byte{0xc1, 0xff, 0x00}},
		"empty":               {Subject: "debrief.task.main", Header: schema},
		"schema missing":      {Subject: "debrief.task.main", Data: invalid},
		"book is no name":     {Subject: "debrief.task.no$name", Header: schema, Data: invalid},
		"kind unknown":        {Subject: "debrief.task2.main", Header: schema, Data: invalid},
	} {
		for _, batch := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, batch %d", name, batch), func(t *testing.T) {
				t.Parallel()
				c := connectNew(t, fastPolicy)
				if m.Subject == "debrief.task2.main" { // as if a newer version had added it
					s, err := c.js.Stream(t.Context(), events.StreamTasks)
					if err != nil {
						t.Fatal(err)
					}
					cfg := s.CachedInfo().Config
					cfg.Subjects = append(cfg.Subjects, "debrief.task2.*")
					if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
						t.Fatal(err)
					}
				}
				var called atomic.Int32
				start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(context.Context, []*Delivery) []Result {
					called.Add(1)
					return nil
				}})
				if _, err := c.js.PublishMsg(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				l := letters(t, c, 1)[0]
				if l.Attempts != 1 || l.Code != events.DeadInvalid || l.Reason == "" || string(l.Data) != string(m.Data) || l.Subject != m.Subject {
					t.Errorf("got %+v", l)
				}
				awaitIdle(t, c, events.RoleGenerator)
				if called.Load() != 0 {
					t.Error("the handler saw it")
				}
			})
		}
	}
}

func TestUnreadableMessageDoesNotFailBatch(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	publish(t, c, task("main", 1))
	if _, err := c.js.PublishMsg(t.Context(), &nats.Msg{Subject: "debrief.task.main", Header: events.SchemaHeader(), Data: []byte{0xc1}}); err != nil {
		t.Fatal(err)
	}
	publish(t, c, task("main", 2))
	start(t, c, Worker{Role: events.RoleGenerator, Batch: 8, Handle: func(_ context.Context, batch []*Delivery) (out []Result) {
		for _, d := range batch {
			out = append(out, answer(d))
		}
		return out
	}})
	await(t, c, events.StreamExecutions, 2)
	if l := letters(t, c, 1)[0]; l.Seq != 2 {
		t.Errorf("got a letter for %d, want 2", l.Seq)
	}
	awaitIdle(t, c, events.RoleGenerator)
}

func TestMissingResultsAreErrors(t *testing.T) {
	t.Parallel()
	p := fastPolicy
	p.MaxAttempts = 1
	c := connectNew(t, p)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: func(context.Context, []*Delivery) []Result { return nil }})
	publish(t, c, task("main", 1))
	if l := letters(t, c, 1)[0]; l.Code != events.DeadError || !strings.Contains(l.Reason, events.RoleGenerator) {
		t.Errorf("got %s, %q, want an error that names the role", l.Code, l.Reason)
	}
}

func TestTwoWorkersShareMessages(t *testing.T) {
	t.Parallel()
	srv := serve(t, natsd.Config{})
	const n = 120
	var seen deliveryCounter
	var by [2]atomic.Int32
	both := make(chan struct{}, 2)
	for i := range by {
		start(t, open(t, srv, fastPolicy), Worker{Role: events.RoleGenerator, Slots: 2, Handle: single(func(_ context.Context, d *Delivery) Result {
			seen.add(d.Seq)
			if by[i].Add(1) == 1 { // the first waits for the other worker's first
				both <- struct{}{}
				for len(both) < 2 {
					time.Sleep(time.Millisecond)
				}
			}
			return answer(d)
		})})
	}
	c := open(t, srv, fastPolicy)
	eventually(t, "both pull", func() bool { return lag(t, c, events.RoleGenerator).Idle() && pulls(t, c, events.RoleGenerator) == 2 })
	publishTasks(t, c, "main", n)
	await(t, c, events.StreamExecutions, n)
	awaitIdle(t, c, events.RoleGenerator)
	if got := seen.repeated(); len(got) > 0 || count(t, c, events.StreamExecutions) != n {
		t.Errorf("handled more than once: %v; %d executions, want %d", got, count(t, c, events.StreamExecutions), n)
	}
	if a, b := by[0].Load(), by[1].Load(); a == 0 || b == 0 || a+b != n {
		t.Errorf("one did %d, the other %d, want %d together", a, b, n)
	}
}

func TestSlotsBoundConcurrency(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	var now, most atomic.Int32
	arrived, release := make(chan struct{}, 64), make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Slots: 3, Handle: single(func(_ context.Context, d *Delivery) Result {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		arrived <- struct{}{}
		<-release
		return answer(d)
	})})
	publishTasks(t, c, "main", 12)
	for range 3 {
		within(t, arrived, "fewer than 3 at a time")
	}
	eventually(t, "with all slots busy 3 are in flight and 9 left to others", func() bool { // the server counts a moment later
		l := lag(t, c, events.RoleGenerator)
		return l.InFlight == 3 && l.Pending == 9
	})
	close(release)
	await(t, c, events.StreamExecutions, 12)
	if most.Load() != 3 {
		t.Errorf("got %d at a time, want 3", most.Load())
	}
}

func TestTraceAndRepeatMarkAreInherited(t *testing.T) {
	t.Parallel()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := connectNew(t, fastPolicy)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		if d.Trace != trace {
			t.Errorf("handler: got trace %q", d.Trace)
		}
		if d.Attempt == 1 && d.Event.(*events.Task).ID == "task-2" {
			return Result{Err: errHandler}
		}
		return answer(d)
	})})
	for i, m := range []PublishOptions{{Trace: trace}, {Trace: trace}, {Trace: trace, Repeat: true}} {
		if _, err := c.Publish(t.Context(), task("main", i+1), m); err != nil {
			t.Fatal(err)
		}
	}
	await(t, c, events.StreamExecutions, 3)
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e, err := events.Decode(m.Subject, m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		id := e.(*events.Execution).RunID
		if got := m.Header.Get(events.HeaderTrace); got != trace {
			t.Errorf("%s: got trace %q", id, got)
		}
		// 1 is new; 2 is the output of a redelivery; 3 was published with the mark.
		if got, want := m.Header.Get(events.HeaderRepeat) != "", id != "task-1"; got != want {
			t.Errorf("%s: marked as a repeat: %t, want %t", id, got, want)
		}
	}
}
