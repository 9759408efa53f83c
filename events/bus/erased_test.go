package bus

import (
	"context"
	"errors"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/erasure"
)

// TestErasedEvents checks that an event of an erased run is neither stored nor handled, and becomes no dead letter. Other events are.
func TestErasedEvents(t *testing.T) {
	t.Parallel()
	c := connectNew(t, Policy{})
	began := time.Now().UTC()
	task := func(id, user string) *events.Task {
		return &events.Task{Book: "b", ID: id, User: user, Question: "q", Created: began}
	}
	for _, before := range []*events.Task{task("1", "ann"), task("2", "bob")} { // stored before the erasure
		if _, err := c.Publish(t.Context(), before, PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := &erasure.Request{ID: events.NewID(), User: "ann", Created: began.Add(time.Second)}
	if err := erasure.NewStore(c.js).Add(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := c.erased.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), task("3", "ann"), PublishOptions{}); !errors.Is(err, erasure.ErrErased) {
		t.Errorf("publish: got %v, want %v", err, erasure.ErrErased)
	}
	handled := make(chan string, 3)
	start(t, c, Worker{Role: events.RoleGenerator, Handle: single(func(_ context.Context, d *Delivery) Result {
		handled <- d.Event.(*events.Task).User
		return Result{}
	})})
	if got := <-handled; got != "bob" {
		t.Errorf("handled the task of %s, want only that of bob", got)
	}
	eventually(t, "an empty stream", func() bool {
		s, err := c.js.Stream(t.Context(), events.StreamTasks)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	s, err := c.js.Stream(t.Context(), events.StreamDead)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 0 || len(handled) != 0 {
		t.Errorf("got %d dead letters and %d more handled tasks, want none", n, len(handled))
	}
}
