package ops

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// TestTailAfterDataLoss: the server lost all executions in a crash, so a new one has the sequence of a lost one.
func TestTailAfterDataLoss(t *testing.T) {
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	publish := func(run string) events.ID {
		x := &events.Execution{Book: "b", RunID: run, ID: events.ExecutionID("b", "", run, 0), Question: "q", Answer: "a"}
		if _, err := conn.Publish(t.Context(), x, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	shown := make(chan events.ID, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- (&Tail{Lines: 10, Follow: true}).show(ctx, conn, "", time.Time{}, func(e *tailEntry) error {
			shown <- e.Event.EventID()
			return nil
		})
	}()
	for _, run := range []string{"1", "2", "3"} {
		if got, want := publish(run), <-shown; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	s, err := conn.JetStream().Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.JetStream().DeleteStream(t.Context(), events.StreamExecutions); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.JetStream().CreateStream(t.Context(), s.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	reconnected := nc.StatusChanged(nats.CONNECTED)
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	<-reconnected
	if got, want := publish("4"), <-shown; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}
