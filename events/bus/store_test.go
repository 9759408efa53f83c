package bus

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events"
)

// silent puts a subscriber that never answers in the place of the stream of executions. It returns what that receives.
func silent(t *testing.T, c *Conn) (received chan *nats.Msg, restore func()) {
	t.Helper()
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.js.DeleteStream(t.Context(), events.StreamExecutions); err != nil {
		t.Fatal(err)
	}
	received = make(chan *nats.Msg, 100)
	sub, err := c.nc.ChanSubscribe(events.KindExecution.Subject(""), received)
	if err != nil {
		t.Fatal(err)
	}
	return received, func() {
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.js.CreateStream(t.Context(), s.CachedInfo().Config); err != nil {
			t.Fatal(err)
		}
	}
}

// TestASilentStreamRefusesAtOnce: after one publish without an acknowledgement the next ones are not sent, other streams go
// on, and the first acknowledgement ends it.
func TestASilentStreamRefusesAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits 5 s for an acknowledgement that does not come")
	}
	c := fresh(t, quick)
	received, restore := silent(t, c)
	refusal := (*SilentError)(nil)
	for try := range 2 {
		_, err := c.Publish(t.Context(), execution("b", "one"), Marks{})
		if !errors.As(err, &refusal) || refusal.Stream != events.StreamExecutions || refusal.RetryAfter() <= 0 || !Away(err) || !Unreachable(err) {
			t.Fatalf("publish %d: got %v, want a *SilentError of %s that is worth another try", try+1, err, events.StreamExecutions)
		}
	}
	if n := len(received); n != 1 {
		t.Errorf("%d of 2 publishes were sent, want the first alone", n)
	}
	if !errors.As(c.Store(), &refusal) {
		t.Errorf("got state %v, want the silent stream", c.Store())
	}
	if _, err := c.Publish(t.Context(), task("b", 1), Marks{}); err != nil {
		t.Errorf("publish to another stream: %v", err)
	}
	restore()
	eventually(t, "a publish is taken again", func() bool {
		_, err := c.Publish(t.Context(), execution("b", "one"), Marks{})
		return err == nil
	})
	if err := c.Store(); err != nil {
		t.Errorf("after an acknowledgement: got state %v", err)
	}
}

// TestAClosedStoreRefusesAtOnce also what waits for an acknowledgement when it closes.
func TestAClosedStoreRefusesAtOnce(t *testing.T) {
	t.Parallel()
	c := fresh(t, quick)
	received, restore := silent(t, c)
	c.StoreClosed(nil)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Publish(t.Context(), execution("b", "one"), Marks{})
		waiting <- err
	}()
	within(t, received, "the publish is sent")
	why := errors.New("the disk has 1 MiB left")
	c.StoreClosed(why)
	if err := within(t, waiting, "the publish returns"); !Away(err) {
		t.Errorf("the one under way: got %v, want that it is worth another try", err)
	}
	restore()
	full := (*FullError)(nil)
	if _, err := c.Publish(t.Context(), execution("b", "two"), Marks{}); !errors.As(err, &full) || !errors.Is(err, why) || !Away(err) {
		t.Errorf("the next one: got %v, want a *FullError with the reason", err)
	}
	if err := c.Store(); !errors.Is(err, why) {
		t.Errorf("got state %v, want %v", err, why)
	}
	c.StoreClosed(nil)
	eventually(t, "publishes are taken again", func() bool {
		_, err := c.Publish(t.Context(), execution("b", "three"), Marks{})
		return err == nil
	})
	if err := c.Store(); err != nil {
		t.Errorf("after it opened: got state %v", err)
	}
}

func TestARefusalForWantOfRoomIsTheState(t *testing.T) {
	t.Parallel()
	c := fresh(t, quick)
	s, err := c.js.Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(bytes int64) {
		t.Helper()
		cfg := s.CachedInfo().Config
		cfg.MaxBytes = bytes
		if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	full := (*FullError)(nil)
	if _, err := c.Publish(t.Context(), execution("b", "one"), Marks{}); !errors.As(err, &full) {
		t.Fatalf("got %v, want a *FullError", err)
	}
	if !errors.As(c.Store(), &full) {
		t.Errorf("got state %v, want that it is full", c.Store())
	}
	limit(-1)
	publish(t, c, execution("b", "one"))
	if err := c.Store(); err != nil {
		t.Errorf("after one was taken: got state %v", err)
	}
}
