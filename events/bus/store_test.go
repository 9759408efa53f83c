package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/natsd"
)

// replaceStream replaces the stream of executions by a subscriber that never answers. It returns the received messages.
func replaceStream(t *testing.T, c *Conn) (received chan *nats.Msg, restore func()) {
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

// TestSilentStreamFailsAtOnce: after one publish without an acknowledgement the next ones are not sent. Other streams
// work, and the first acknowledgement ends the silence.
func TestSilentStreamFailsAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits 5 s for an acknowledgement that does not come")
	}
	c := connectNew(t, fastPolicy)
	received, restore := replaceStream(t, c)
	refusal := (*noAckError)(nil)
	for try := range 2 {
		_, err := c.Publish(t.Context(), execution("b", "one"), PublishOptions{})
		if !errors.As(err, &refusal) || refusal.Stream != events.StreamExecutions || refusal.RetryAfter() <= 0 || !IsUnavailable(err) || !Unreachable(err) {
			t.Fatalf("publish %d: got %v, want a *noAckError of %s that is worth another try", try+1, err, events.StreamExecutions)
		}
	}
	if n := len(received); n != 1 {
		t.Errorf("%d of 2 publishes were sent, want the first alone", n)
	}
	if !errors.As(c.StoreError(), &refusal) {
		t.Errorf("got state %v, want the silent stream", c.StoreError())
	}
	if _, err := c.Publish(t.Context(), task("b", 1), PublishOptions{}); err != nil {
		t.Errorf("publish to another stream: %v", err)
	}
	restore()
	eventually(t, "the server accepts a publish again", func() bool {
		_, err := c.Publish(t.Context(), execution("b", "one"), PublishOptions{})
		return err == nil
	})
	if err := c.StoreError(); err != nil {
		t.Errorf("after an acknowledgement: got state %v", err)
	}
}

func TestClosedStoreFailsAtOnce(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	why := errors.New("the disk has 1 MiB left")
	c.SetStoreClosed(why)
	full := (*FullError)(nil)
	if _, err := c.Publish(t.Context(), execution("b", "two"), PublishOptions{}); !errors.As(err, &full) || !errors.Is(err, why) || !IsUnavailable(err) {
		t.Errorf("the next one: got %v, want a *FullError with the reason", err)
	}
	if err := c.StoreError(); !errors.Is(err, why) {
		t.Errorf("got state %v, want %v", err, why)
	}
	c.SetStoreClosed(nil)
	eventually(t, "the server accepts publishes again", func() bool {
		_, err := c.Publish(t.Context(), execution("b", "three"), PublishOptions{})
		return err == nil
	})
	if err := c.StoreError(); err != nil {
		t.Errorf("after it opened: got state %v", err)
	}
}

func TestStoreReturnsLastFullError(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
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
	if _, err := c.Publish(t.Context(), execution("b", "one"), PublishOptions{}); !errors.As(err, &full) {
		t.Fatalf("got %v, want a *FullError", err)
	}
	if !errors.As(c.StoreError(), &full) {
		t.Errorf("got state %v, want that it is full", c.StoreError())
	}
	publish(t, c, task("b", 1))
	if !errors.As(c.StoreError(), &full) {
		t.Errorf("after a publish to another stream: got state %v, want that the first is full", c.StoreError())
	}
	limit(-1)
	publish(t, c, execution("b", "one"))
	if err := c.StoreError(); err != nil {
		t.Errorf("after the server accepted one: got state %v", err)
	}
}

// TestCheckStreamsNamesUnansweredRoles: the server accepts connections and answers no requests about streams.
func TestCheckStreamsNamesUnansweredRoles(t *testing.T) {
	t.Parallel()
	srv := startNATS(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	nc, err := nats.Connect(srv.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := Open(t.Context(), nc, Options{Policy: fastPolicy})
	if err != nil {
		t.Fatal(err)
	}
	start(t, c, Worker{Role: events.RoleCurator, Handle: single(func(context.Context, *Delivery) Result { return Result{} })})
	eventually(t, "the role runs", func() bool { return len(c.Health.Roles()) == 1 })
	check := func() map[string]error {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		return c.CheckStreams(ctx)
	}
	if failed := check(); len(failed) > 0 {
		t.Errorf("got %v, want no error", failed)
	}
	if err := srv.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	if failed := check(); failed[events.RoleCurator] == nil || len(failed) != 1 {
		t.Errorf("got %v, want an error of the curator", failed)
	}
}

// TestMissingStreamIsNamed: a missing stream is not a full disk.
func TestMissingStreamIsNamed(t *testing.T) {
	t.Parallel()
	nc, err := serve(t, natsd.Config{}).Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := Attach(nc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Publish(t.Context(), task("b", 1), PublishOptions{})
	if text := fmt.Sprint(err); !strings.Contains(text, "stream TASKS does not answer: it has no leader or does not exist") || strings.Contains(text, "disk") {
		t.Errorf("got %v, want the missing stream", err)
	}
}
