package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/text"
)

// TestWrongAnswersHaveTheirPrompts compares the wrong answers of a report with the stored executions.
func TestWrongAnswersHaveTheirPrompts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(24, 20)
	for _, test := range []struct {
		name, set, phase string
		leave            func(*Sets)
	}{
		{"tested", Test, "after", func(s *Sets) {}},
		{"validated", Validation, "step 24", func(s *Sets) { s.Test = nil }},
		{"trained", Train, "epoch 1", func(s *Sets) { s.Test, s.Validation = nil, nil }},
	} {
		s := s
		test.leave(&s)
		out := h.run(Config{Epochs: 1}, s, Options{Name: test.name})
		stored := map[string]*events.Execution{}
		err := h.conn.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject(playbook.Book(test.name)), 1, func(st bus.Stored) error {
			e := st.Event.(*events.Execution)
			stored[fmt.Sprint(text.Clip(e.Question, maxQuestion), "/", e.Answer, "/", e.Version)] = e
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w := out.Report.Wrong
		if w.Set != test.set || w.Phase != test.phase || w.Of != 20 && test.set != Train || w.Wrong == 0 || len(w.First) != min(w.Wrong, report.MaxWrong) {
			t.Errorf("%s: got %d of %d wrong answers of %s, %s", test.name, w.Wrong, w.Of, w.Set, w.Phase)
		}
		withBullets := 0
		for _, x := range w.First {
			e := stored[fmt.Sprint(x.Question, "/", x.Answer, "/", x.Version)]
			if e == nil || x.Label == events.Success || x.Model != simulated.Name {
				t.Errorf("%s: got %+v", test.name, x)
				continue
			}
			for i := range x.Bullets {
				b := &x.Bullets[i]
				if events.WordingOf(b.Content) != b.Wording {
					t.Errorf("%s: got the text %q, want that of the prompt", test.name, b.Content)
				}
				b.Content = ""
			}
			if diff := cmp.Diff(e.Shown, x.Bullets, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -prompt +report:\n%s", test.name, diff)
			}
			if test.set == Test && x.Version != out.Report.Best.Version {
				t.Errorf("%s: got an answer with version %d, the best is %d", test.name, x.Version, out.Report.Best.Version)
			}
			withBullets += len(x.Bullets)
		}
		if test.set == Test && withBullets == 0 {
			t.Errorf("%s: no wrong answer had a bullet in its prompt", test.name)
		}
		if m := out.Report.Models; len(m) != 1 || m[0].Model != simulated.Name || m[0].Answers != len(out.Samples) {
			t.Errorf("%s: got the models %+v of %d answers", test.name, m, len(out.Samples))
		}
	}
}
