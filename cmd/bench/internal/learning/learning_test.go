package learning

import (
	"fmt"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train"
	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// goals fails the test for every goal that a part of the bench missed.
func goals(t *testing.T, s *table.Table, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Goals) == 0 || len(s.Values) == 0 {
		t.Fatal("nothing was measured")
	}
	for _, g := range s.Goals {
		if !g.Met {
			t.Errorf("%s: got %s", g.Goal, g.Got)
		}
	}
}

func TestManyReflectionsAtOnceKeepTheirLessons(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &Bench{Seeds: 2, Quick: true}
	s, err := b.retention(t.Context(), zerolog.Nop())
	goals(t, s, err)
}

func TestTranscriptsGiveNoOrdersAndNoEcho(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	b := &Bench{Seeds: 2, Quick: true}
	s, err := b.trust(t.Context(), zerolog.Nop())
	goals(t, s, err)
}

// TestWrongFeedbackTeachesWrongThings is the short form of the bench, with its controls: what clean feedback teaches,
// what wrong feedback does to it without a gate, and that a gate lets none of the wrong into use.
func TestWrongFeedbackTeachesWrongThings(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, err := schooling{}.open(t.Context(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	training, heldOut := simulated.GenerateTasks(1, 600, 60)
	var pupils []*pupil
	for i, a := range arms {
		wrong := 0.0
		if a.wrong {
			wrong = 0.2
		}
		p, err := s.enrol(t.Context(), fmt.Sprint("arm-", i), a.gate, 1, wrong, training, heldOut)
		if err != nil {
			t.Fatal(err)
		}
		pupils = append(pupils, p)
	}
	before, err := s.examine(t.Context(), pupils, "before")
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if err := s.step(t.Context(), pupils, 100); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.examine(t.Context(), pupils, "after")
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, e := range after {
		got = append(got, train.Accuracy(e))
	}
	t.Logf("accuracy before %.2f, after, by arm: %.2f", train.Accuracy(before[0]), got)
	if got[0] < 0.9 || train.Accuracy(before[0]) > 0.25 {
		t.Errorf("clean feedback: got accuracy %.2f from %.2f, want at least 0.9 from under 0.25", got[0], train.Accuracy(before[0]))
	}
	if got[1] > got[0]-0.1 {
		t.Errorf("wrong feedback, gate off: got accuracy %.2f, want it well under that of clean feedback, %.2f", got[1], got[0])
	}
	// What the clean arm has in use is true.
	_, truth, err := pupils[0].read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, gated, err := pupils[3].read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for b := range gated.All() {
		if b.Shown() && truth.FindByContent(b.Content) == nil {
			t.Errorf("gate on: %q is in use, and clean feedback does not teach it", b.Content)
		}
	}
	heldOutStaysOut(t, s)
}

// heldOutStaysOut: what is for evaluation is reflected on by nobody.
func heldOutStaysOut(t *testing.T, s *school) {
	t.Helper()
	evaluated, reflected := map[events.ID]bool{}, 0
	err := s.session.ReadStored(t.Context(), events.StreamExecutions, events.KindExecution.Subject(""), func(st bus.Stored) error {
		if e, ok := st.Event.(*events.Execution); ok && e.Purpose == events.Evaluate {
			evaluated[e.ID] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.session.ReadStored(t.Context(), events.StreamReflections, events.KindReflection.Subject(""), func(st bus.Stored) error {
		if r, ok := st.Event.(*events.Reflection); ok {
			reflected++
			if evaluated[r.Execution] {
				t.Errorf("held-out execution %s was reflected on", r.Handle)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(evaluated) == 0 || reflected == 0 {
		t.Errorf("got %d held-out executions and %d reflections, want some of both", len(evaluated), reflected)
	}
}

func TestNoiseStaysAtTheBaseline(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, err := schooling{model: simulated.Options{NonsenseRate: 1}}.open(t.Context(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	training, heldOut := simulated.GenerateTasks(2, 200, 60)
	p, err := s.enrol(t.Context(), "noise", book.GateOff, 2, 0, training, heldOut)
	if err != nil {
		t.Fatal(err)
	}
	all := []*pupil{p}
	before, err := s.examine(t.Context(), all, "before")
	if err == nil {
		err = s.step(t.Context(), all, 200)
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.examine(t.Context(), all, "after")
	if err != nil {
		t.Fatal(err)
	}
	if train.Accuracy(before[0]) != train.Accuracy(after[0]) {
		t.Errorf("got accuracy %.3f before and %.3f after learning nonsense, want the same", train.Accuracy(before[0]), train.Accuracy(after[0]))
	}
	if _, now, err := p.read(t.Context()); err != nil || now.Len() == 0 {
		t.Errorf("got %d bullets, %v, want the nonsense in the book", now.Len(), err)
	}
}
