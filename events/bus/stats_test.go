package bus

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/streams"
	"debrief/playbook"
)

// TestPercentilesUseNearestRank compares the percentiles with the definition, over the last calls.
func TestPercentilesUseNearestRank(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, 1000), 0, 3*durationsKept).Draw(t, "durations")
		var r roleCounters
		for _, d := range all {
			r.addCall(time.Duration(d))
		}
		p50, p95 := r.percentiles()
		last := slices.Clone(all[max(0, len(all)-durationsKept):])
		slices.Sort(last)
		nearest := func(p float64) time.Duration {
			if len(last) == 0 {
				return 0
			}
			return time.Duration(last[int(math.Ceil(p*float64(len(last))))-1])
		}
		if p50 != nearest(0.50) || p95 != nearest(0.95) || r.Calls != uint64(len(all)) {
			t.Fatalf("got %d, %d of %d calls, want %d, %d of %d", p50, p95, r.Calls, nearest(0.50), nearest(0.95), len(all))
		}
	})
}

// TestVitalsCountDeliveries: one is dead-lettered first, one has no output, one fails and then succeeds, one is stored.
func TestVitalsCountDeliveries(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		switch n := d.Event.(*events.Task).ID; {
		case n == "task-1":
			return Result{}
		case n == "task-2" && d.Attempt == 1:
			return Result{Err: errHandler}
		case n == "task-0":
			return Result{Err: Discard(errHandler)}
		}
		return answer(d)
	})})
	publishTasks(t, c, "main", 4)
	eventually(t, "all messages are acknowledged", func() bool {
		all := c.Stats.Roles()
		return len(all) == 1 && all[0].Stored+all[0].Handled+all[0].Dead == 4
	})
	c.Stats.CountDeltas(events.RoleGenerator, 0, 3)
	v := c.Stats.Roles()[0]
	got := fmt.Sprint(v.Role, v.Stored, v.Handled, v.Retried, v.Dead, v.Calls, v.Deltas, v.Rejected, v.DeadSinceSuccess, v.SuccessesSinceEffect)
	if want := fmt.Sprint("generator", 2, 1, 1, 1, 3, 0, 3, 0, 0); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if v.LastSuccess.IsZero() || !v.LastEffect.Equal(v.LastSuccess) || v.Started.After(v.LastSuccess) || v.P95 < v.P50 || v.P50 <= 0 || v.TotalDuration <= 0 {
		t.Errorf("got %+v", v)
	}
	w, err := c.Consumers.Backlog(t.Context(), events.RoleGenerator)
	if err != nil {
		t.Fatal(err)
	}
	if w.Dead != 1 || w.Outputs != 2 || !w.Oldest.IsZero() || w.LastOutput.IsZero() {
		t.Errorf("got %+v", w)
	}
}

// TestBacklogWithoutAStream: damage can take a stream, and the status must then still say which one.
func TestBacklogWithoutAStream(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	for _, stream := range []string{events.StreamExecutions, events.StreamDead} {
		if err := c.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range streams.Roles {
		if w, err := c.Consumers.Backlog(t.Context(), role); err != nil || w.Outputs != 0 || w.Dead != 0 {
			t.Errorf("%s: got %+v, %v", role, w, err)
		}
	}
}

// TestWorkReturnsOldestMessage: the first and third message are acknowledged, the second is not.
func TestWorkReturnsOldestMessage(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	for i, book := range []playbook.Book{"first", "second", "third"} {
		publish(t, c, execution(book, fmt.Sprint("task-", i)))
	}
	w, err := c.Consumers.Backlog(t.Context(), events.RoleReflector)
	if err != nil {
		t.Fatal(err)
	}
	if w.Pending != 3 || w.Book != "first" || w.Retention != 30*24*time.Hour || !w.LastAck.IsZero() {
		t.Errorf("before anybody runs: got %+v", w)
	}
	oldest := w.Oldest
	release := make(chan struct{})
	start(t, c, Worker{Role: events.RoleReflector, Slots: 3, Handle: single(func(_ context.Context, d *Delivery) Result {
		if d.Event.InBook() == "second" {
			<-release
		}
		return Result{}
	})})
	eventually(t, "the first and the third message are acknowledged", func() bool { l := lag(t, c, events.RoleReflector); return l.InFlight == 1 && l.Pending == 0 })
	if w, err = c.Consumers.Backlog(t.Context(), events.RoleReflector); err != nil {
		t.Fatal(err)
	}
	if w.Book != "second" || !w.Oldest.After(oldest) || w.LastAck.IsZero() {
		t.Errorf("got %+v, want what is in work", w)
	}
	close(release)
	awaitIdle(t, c, events.RoleReflector)
}
