package bus

import (
	"context"
	"testing"
	"time"

	"debrief/events"
)

// TestLastAttemptEndsWithOneEffectOrLetter covers the crash of a worker before its acknowledgement.
func TestLastAttemptEndsWithOneEffectOrLetter(t *testing.T) {
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
	t.Run("the letter is stored, and its worker dies before the ack", func(t *testing.T) {
		t.Parallel()
		c := connectNew(t, shortWaits(1))
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
}
