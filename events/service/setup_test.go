package service

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"debrief/events"
	"debrief/events/natsd"
)

// TestMain fails the package when a server, a connection or a request outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come. Reaching it is a failure.
const patience = 15 * time.Second

// desk is a Desk of functions. One that is nil answers with what it was asked.
type desk struct {
	context  func(context.Context, *events.ContextRequest) (*events.ContextReply, error)
	report   func(context.Context, *events.Report) (*events.Stored, error)
	feedback func(context.Context, *events.FeedbackRequest) (*events.Stored, error)
}

func (d desk) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	if d.context == nil {
		return &events.ContextReply{Book: r.Book, Session: r.Query, Version: r.MinVersion}, nil
	}
	return d.context(ctx, r)
}

func (d desk) Report(ctx context.Context, r *events.Report) (*events.Stored, error) {
	if d.report == nil {
		return &events.Stored{Handle: events.Handle(r.Book) + "/" + events.Handle(r.Answer)}, nil
	}
	return d.report(ctx, r)
}

func (d desk) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.Stored, error) {
	if d.feedback == nil {
		return &events.Stored{Handle: r.Execution}, nil
	}
	return d.feedback(ctx, r)
}

// open starts a server of the test's own. Connections to it are made with the function.
func open(t testing.TB) func() *nats.Conn {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return func() *nats.Conn {
		nc, err := srv.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

// receive is what a channel brings.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
