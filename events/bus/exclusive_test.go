package bus

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/events"
)

// TestEffectAndDeadLetterExcludeEachOther covers each point at which a worker can crash or stop.
func TestEffectAndDeadLetterExcludeEachOther(t *testing.T) {
	t.Parallel()
	letterOf := func(t *testing.T, c *Conn, seq uint64) *events.DeadLetter {
		t.Helper()
		m, err := c.storedMsg(t.Context(), events.StreamTasks, seq)
		if err != nil || m == nil {
			t.Fatal(err)
		}
		return &events.DeadLetter{
			Role: events.RoleGenerator, Code: events.DeadAttempts, Reason: "lost", Stream: events.StreamTasks, Seq: seq,
			Subject: m.Subject, Header: m.Header, Data: m.Data, Time: time.Now(),
		}
	}
	has := func(c *Conn) func(context.Context, *Delivery) (bool, error) {
		return func(ctx context.Context, d *Delivery) (bool, error) {
			id := execution("main", d.Event.(*events.Task).ID).ID
			return c.Events.Has(ctx, events.StreamExecutions, "debrief.execution.main", d.Stored, id)
		}
	}
	t.Run("the effect is stored, and all attempts are used up", func(t *testing.T) {
		t.Parallel()
		c := connectNew(t, shortWaits(1))
		publish(t, c, task("main", 1))
		loseDeliveries(t, c, events.RoleGenerator, 1)
		publish(t, c, execution("main", "task-1"))
		start(t, c, Worker{Role: events.RoleGenerator, Done: has(c), Handle: single(func(context.Context, *Delivery) Result {
			t.Error("message handled again")
			return Result{}
		})})
		awaitIdle(t, c, events.RoleGenerator)
		if n := count(t, c, events.StreamDead); n != 0 {
			t.Errorf("got %d dead letters", n)
		}
	})
	t.Run("the effect is stored while the letter is written", func(t *testing.T) {
		t.Parallel()
		c := connectNew(t, shortWaits(1))
		publish(t, c, task("main", 1))
		loseDeliveries(t, c, events.RoleGenerator, 1)
		var asked atomic.Int32
		start(t, c, Worker{Role: events.RoleGenerator, Done: func(ctx context.Context, d *Delivery) (bool, error) {
			done, err := has(c)(ctx, d)
			if asked.Add(1) == 1 { // the worker that had the message continues now
				publish(t, c, execution("main", "task-1"))
			}
			return done, err
		}, Handle: single(func(context.Context, *Delivery) Result { return Result{} })})
		awaitIdle(t, c, events.RoleGenerator)
		eventually(t, "the letter is withdrawn", func() bool { return count(t, c, events.StreamDead) == 0 })
		if asked.Load() < 2 {
			t.Errorf("asked %d times, want before and after the letter", asked.Load())
		}
	})
	t.Run("the letter is stored, and its worker dies before the ack", func(t *testing.T) {
		t.Parallel()
		c := connectNew(t, shortWaits(3))
		r := publish(t, c, task("main", 1))
		loseDeliveries(t, c, events.RoleGenerator, 1)
		if err := c.DeadLetters.Store(t.Context(), letterOf(t, c, r.Seq)); err != nil {
			t.Fatal(err)
		}
		start(t, c, Worker{Role: events.RoleGenerator, Done: has(c), Handle: single(func(context.Context, *Delivery) Result {
			t.Error("message handled again")
			return Result{}
		})})
		awaitIdle(t, c, events.RoleGenerator)
		if n := count(t, c, events.StreamDead); n != 1 {
			t.Errorf("got %d dead letters, want the one", n)
		}
	})
	t.Run("the letter and the effect are stored, and both workers die", func(t *testing.T) {
		t.Parallel()
		c := connectNew(t, shortWaits(3))
		r := publish(t, c, task("main", 1))
		loseDeliveries(t, c, events.RoleGenerator, 1)
		if err := c.DeadLetters.Store(t.Context(), letterOf(t, c, r.Seq)); err != nil {
			t.Fatal(err)
		}
		publish(t, c, execution("main", "task-1"))
		start(t, c, Worker{Role: events.RoleGenerator, Done: has(c), Handle: single(func(context.Context, *Delivery) Result { return Result{} })})
		awaitIdle(t, c, events.RoleGenerator)
		eventually(t, "the letter is withdrawn", func() bool { return count(t, c, events.StreamDead) == 0 })
	})
	t.Run("the letter and the effect are stored and the message is acknowledged, and the worker that was to withdraw the letter died", func(t *testing.T) {
		t.Parallel()
		c := connectNew(t, shortWaits(3))
		lost := publish(t, c, task("main", 2))
		for _, l := range []*events.DeadLetter{letterOf(t, c, publish(t, c, task("main", 1)).Seq), letterOf(t, c, lost.Seq)} {
			if err := c.DeadLetters.Store(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		publish(t, c, execution("main", "task-1"))
		s, err := c.js.Stream(t.Context(), events.StreamTasks)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		start(t, c, Worker{Role: events.RoleGenerator, Done: has(c), Handle: single(func(context.Context, *Delivery) Result { return Result{} })})
		eventually(t, "the letter is withdrawn", func() bool { return count(t, c, events.StreamDead) == 1 })
		if l := letters(t, c, 1)[0]; l.Seq != lost.Seq {
			t.Errorf("the letter of %d remains, want that of %d, which has no effect", l.Seq, lost.Seq)
		}
	})
	t.Run("a worker is out of touch while another one gives the message up", func(t *testing.T) {
		t.Parallel()
		srv := startNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
		wire := &pausableDialer{}
		connect := func(o ...nats.Option) *Conn {
			nc, err := nats.Connect(srv.ClientURL(), o...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			return openOn(t, nc, shortWaits(1))
		}
		c, silent := connect(), connect(nats.SetCustomDialer(wire))
		publish(t, c, task("main", 1))
		begun, goOn := make(chan struct{}), make(chan struct{})
		start(t, silent, Worker{Role: events.RoleGenerator, Done: has(c), Handle: single(func(_ context.Context, d *Delivery) Result {
			close(begun)
			<-goOn
			return answer(d)
		})})
		within(t, begun, "not handled")
		wire.on.Lock()
		other := start(t, c, Worker{Role: events.RoleGenerator, Done: has(c), Handle: single(func(context.Context, *Delivery) Result {
			t.Error("message handled again")
			return Result{}
		})})
		letters(t, c, 1)
		other.stop()
		other.wait()
		wire.on.Unlock()
		close(goOn)
		await(t, c, events.StreamExecutions, 1)
		eventually(t, "the letter is withdrawn", func() bool { return count(t, c, events.StreamDead) == 0 })
	})
}

// pausableDialer dials connections that send nothing while it is locked, like those of a process under SIGSTOP.
type pausableDialer struct{ on sync.RWMutex }

type pausableConn struct {
	net.Conn
	m *pausableDialer
}

func (m *pausableDialer) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &pausableConn{c, m}, err
}

func (c *pausableConn) Write(b []byte) (int, error) {
	c.m.on.RLock()
	defer c.m.on.RUnlock()
	return c.Conn.Write(b)
}
