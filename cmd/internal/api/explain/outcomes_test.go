package explain

import (
	"context"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
)

// storedRuns are the stored events by subject.
type storedRuns map[string][]bus.Stored

func (s storedRuns) Scan(_ context.Context, _, subject string, _ uint64, fn func(bus.Stored) error) error {
	for _, st := range s[subject] {
		if err := fn(st); err != nil {
			return err
		}
	}
	return nil
}

func (s storedRuns) add(seq uint64, id string, label events.Label) {
	e := &events.Execution{ID: events.ID(id), Outcome: events.Outcome{Label: label}}
	subject := events.KindExecution.Subject("main")
	s[subject] = append(s[subject], bus.Stored{Seq: seq, Event: e})
}

func TestReadOutcomes(t *testing.T) {
	t.Parallel()
	s := storedRuns{events.KindFeedback.Subject("main"): {
		{Event: &events.Feedback{Execution: events.Handle("4-ab12cd34"), Outcome: events.Outcome{Label: events.Success}}},
		{Event: &events.Feedback{Execution: events.Handle("3-ab12cd34"), Outcome: events.Outcome{Feedback: "a comment"}}},
		{Event: nil},
	}}
	s.add(1, "a", events.Success)
	s.add(2, "a", events.Failure) // a copy
	s.add(3, "b", events.Failure) // the comment changes nothing
	s.add(4, "c", events.Unknown) // feedback: success
	s.add(5, "d", events.Unknown)
	s.add(6, "e", events.Partial)
	o, err := ReadOutcomes(t.Context(), s, "main")
	if err != nil || o.Runs != 4 {
		t.Fatalf("got %d runs, %v, want 4", o.Runs, err)
	}
	var out strings.Builder
	if err := o.Write(&out); err != nil || out.Len() > 0 {
		t.Errorf("without sessions: got %q, %v, want nothing", out.String(), err)
	}
}
