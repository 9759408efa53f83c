package generator

import (
	"context"
	"errors"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/generator/prompt/assembly"
	"debrief/generator/prompt/selection"
)

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for want, c := range map[string]Config{
		"Slots":                        {Slots: -1},
		"RecallMemory":                 {RecallMemory: -1},
		"Recall":                       {Recall: "all"},
		"Limits.Total":                 {Limits: assembly.Limits{Total: -1}},
		"Limits.Window":                {Limits: assembly.Limits{Window: 21}},
		"Limits.Weights.Effectiveness": {Limits: assembly.Limits{Weights: selection.Weights{Effectiveness: -1}}},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one error, of %s", err, want)
		}
	}
	for text, want := range map[string]bool{"session": true, "book": true, "none": true, "": false, "Session": false} {
		if err := new(Recall).UnmarshalText([]byte(text)); (err == nil) != want {
			t.Errorf("recall %q: got %v", text, err)
		}
	}
}

// A retry would fail in the same way.
func TestTooSmallLimitIsDeadLetteredAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.startWith(new(echoModel), nil, Config{Limits: assembly.Limits{Total: 20}}, testTimeouts)
	q := task("b", "why?")
	if e, refused := f.answer(q); !strings.Contains(refused, "limit: ") {
		t.Fatalf("got %+v, %q; want an error that names the limit", e, refused)
	}
	if l := f.deadLetter(q); l.Code != events.DeadInvalid || l.Attempts != 1 {
		t.Errorf("got dead letter %s after %d attempts, want %s after 1", l.Code, l.Attempts, events.DeadInvalid)
	}
}

// Endpoints work without a model. They are closed before the builder is closed.
func TestEndpointsUseTheBuilder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	opened, closed := make(chan *ContextBuilder, 1), make(chan error, 1)
	endpoint := func(_ *bus.Conn, cb *ContextBuilder) (func(), error) {
		opened <- cb
		return func() {
			_, err := cb.Context(context.WithoutCancel(t.Context()), &events.ContextRequest{Book: "b", Query: "?"})
			closed <- err
		}, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bustest.Must(New(nil, nil, Config{}, endpoint)).Run(ctx, f.conn) }()
	if reply := f.context(<-opened, &events.ContextRequest{Query: "?"}); reply.Version != 1 {
		t.Errorf("got %+v", reply)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Errorf("context while the endpoint closes: %v", err)
	}

	errEndpoint := errors.New("endpoint failed")
	failing := func(*bus.Conn, *ContextBuilder) (func(), error) { return nil, errEndpoint }
	if err := bustest.Must(New(nil, nil, Config{}, endpoint, failing)).Run(t.Context(), f.conn); !errors.Is(err, errEndpoint) {
		t.Errorf("got %v, want %v", err, errEndpoint)
	}
	if err := <-closed; err != nil {
		t.Errorf("the first endpoint: %v", err)
	}
}
