package generator

import (
	"context"
	"errors"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/generator/assembly"
	"debrief/generator/selection"
)

func TestConfigNamesTheFlag(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	if err := (Config{}).WithDefaults().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for flag, c := range map[string]Config{
		"--generator-slots: must be at least 1, got -1":   {Slots: -1},
		"--recall-memory: must be positive, got -1":       {RecallMemory: -1},
		`--recall: want session, book or none, got "all"`: {Recall: "all"},
		`--summaries: want model or extract, got "poem"`:  {Summaries: "poem"},
		"--context-tokens: must be at least 1, got -1":    {Limits: assembly.Limits{Total: -1}},
		"--window: want 1 to 20 user turns":               {Limits: assembly.Limits{Window: 21}},
		"--weight-":                                       {Limits: assembly.Limits{Weights: selection.Weights{Effectiveness: -1}}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("got %v, want %q", err, flag)
		}
	}
	for text, want := range map[string]bool{"session": true, "book": true, "none": true, "": false, "Session": false} {
		if err := new(Recall).UnmarshalText([]byte(text)); (err == nil) != want {
			t.Errorf("recall %q: got %v", text, err)
		}
	}
	for text, want := range map[string]bool{"model": true, "extract": true, "": false, "none": false} {
		if err := new(Summaries).UnmarshalText([]byte(text)); (err == nil) != want {
			t.Errorf("summaries %q: got %v", text, err)
		}
	}
}

// TestATaskThatFitsNoLimitIsADeadLetterAtOnce: the same limit has no room for it the next time.
func TestATaskThatFitsNoLimitIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.hire(new(talker), nil, Config{Limits: assembly.Limits{Total: 20}}, brisk)
	q := task("b", "why?")
	if e, refused := h.answer(q); !strings.Contains(refused, "20 tokens are too few") {
		t.Fatalf("got %+v, %q", e, refused)
	}
	if l := h.letter(q); l.Deliveries != 1 {
		t.Errorf("got a letter after %d deliveries, want 1", l.Deliveries)
	}
}

// TestDoorsAreServedByTheDesk: also without a model, and closed before the desk is.
func TestDoorsAreServedByTheDesk(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	opened, closed := make(chan *Desk, 1), make(chan error, 1)
	door := func(_ *bus.Conn, d *Desk) (func(), error) {
		opened <- d
		return func() {
			_, err := d.Context(context.WithoutCancel(t.Context()), &events.ContextRequest{Book: "b", Query: "?"})
			closed <- err
		}, nil
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- New(nil, nil, Config{}, door).Run(ctx, h.conn) }()
	if reply := h.context(<-opened, &events.ContextRequest{Query: "?"}); reply.Version != 1 {
		t.Errorf("got %+v", reply)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Errorf("while its door was closed the desk said %v", err)
	}

	errJammed := errors.New("the door is jammed")
	jammed := func(*bus.Conn, *Desk) (func(), error) { return nil, errJammed }
	if err := New(nil, nil, Config{}, door, jammed).Run(t.Context(), h.conn); !errors.Is(err, errJammed) {
		t.Errorf("got %v, want %v", err, errJammed)
	}
	if err := <-closed; err != nil {
		t.Errorf("the first door: %v", err)
	}
}
