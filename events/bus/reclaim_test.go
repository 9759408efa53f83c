package bus

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/natsd"
)

// TestReclaimRedeliversMessagesOfLostWorkers: a worker took messages, acknowledged the last of them, and was killed
// with the server. The ack wait is an hour, so every redelivery was reclaimed. Acknowledged messages are not
// redelivered, and a reclaim counts as one redelivery.
func TestReclaimRedeliversMessagesOfLostWorkers(t *testing.T) {
	t.Parallel()
	for _, role := range []string{events.RoleGenerator, events.RoleCurator} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := fastPolicy
			p.AckWait, p.MaxAttempts = time.Hour, 2
			srv := serve(t, natsd.Config{Dir: dir})
			c := open(t, srv, p)
			const n, acked = 6, 2
			for i := range n {
				publish(t, c, sample(role, i))
			}
			release := make(chan struct{})
			all := make(chan struct{}, n)
			start(t, c, Worker{Role: role, Slots: n, Handle: single(func(_ context.Context, d *Delivery) Result {
				all <- struct{}{}
				if d.Seq <= n-acked {
					<-release
				}
				return Result{}
			})})
			t.Cleanup(func() { close(release) })
			for range n {
				within(t, all, "not all messages were delivered")
			}
			eventually(t, "some messages are acknowledged", func() bool { return lag(t, c, role).InFlight == n-acked })
			srv.Close()

			c = open(t, serve(t, natsd.Config{Dir: dir}), p)
			publish(t, c, sample(role, n)) // and one without a delivery
			if err := c.Consumers.Reclaim(t.Context()); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			got := map[uint64]int{} // sequence → attempt
			start(t, c, Worker{Role: role, Slots: n, Handle: single(func(_ context.Context, d *Delivery) Result {
				mu.Lock()
				defer mu.Unlock()
				got[d.Seq] = d.Attempt
				return Result{}
			})})
			awaitIdle(t, c, role)
			mu.Lock()
			defer mu.Unlock()
			if want := (map[uint64]int{1: 2, 2: 2, 3: 2, 4: 2, 7: 1}); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if dead := count(t, c, events.StreamDead); dead != 0 {
				t.Errorf("got %d dead letters", dead)
			}
		})
	}
}

// sample returns an event that a role handles.
func sample(role string, i int) events.Event {
	if role == events.RoleGenerator {
		return task("main", i)
	}
	e := &events.Edit{Book: "main", ID: events.Hash(fmt.Sprint(i)), Author: "ann", Rebuild: true}
	return e
}

func TestReclaimWithoutMessagesDoesNothing(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	if err := c.Consumers.Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
}
