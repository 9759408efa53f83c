package service

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"debrief/events"
	"debrief/events/bus/bustest"
)

// TestMain fails the package when a server, a connection or a request outlives its test.
func TestMain(m *testing.M) {
	bustest.Prepare()
	goleak.VerifyTestMain(m)
}

// waitLimit is the maximum wait for an expected event. Its end is a failure.
const waitLimit = 15 * time.Second

// backend is a Backend of functions. A nil function replies with the request.
type backend struct {
	context  func(context.Context, *events.ContextRequest) (*events.ContextReply, error)
	report   func(context.Context, *events.Report) (*events.StoredReply, error)
	feedback func(context.Context, *events.FeedbackRequest) (*events.StoredReply, error)
}

func (d backend) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	if d.context == nil {
		return &events.ContextReply{Book: r.Book, Session: r.Query, Version: r.MinVersion}, nil
	}
	return d.context(ctx, r)
}

func (d backend) Report(ctx context.Context, r *events.Report) (*events.StoredReply, error) {
	if d.report == nil {
		return &events.StoredReply{Handle: events.Handle(r.Book) + "/" + events.Handle(r.Answer)}, nil
	}
	return d.report(ctx, r)
}

func (d backend) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	if d.feedback == nil {
		return &events.StoredReply{Handle: r.Execution}, nil
	}
	return d.feedback(ctx, r)
}

// receive returns the next value of a channel.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(waitLimit):
		t.Fatalf("timeout: no %s", what)
		panic("unreachable")
	}
}
