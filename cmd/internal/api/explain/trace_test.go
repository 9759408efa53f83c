package explain

import (
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

func TestLoadReflections(t *testing.T) {
	t.Parallel()
	x := &Execution{Trace: &history.Trace{Reflections: []history.Reflected{{Cover: playbook.Cover{ID: "a"}}, {Cover: playbook.Cover{ID: "b"}}, {Cover: playbook.Cover{ID: "c"}}}}}
	ev := &fakeEvidence{reflections: map[string]*events.Reflection{"a": {Ignored: []string{"one"}}, "c": {Ignored: []string{"two", "three"}}}}
	if err := x.loadReflections(t.Context(), ev); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(x.Ignored, []string{"one", "two", "three"}) || len(x.Analyses) != 3 || x.Analyses[1] != nil {
		t.Errorf("got ignored %v, reflections %v", x.Ignored, x.Analyses)
	}
}

func TestExecutionText(t *testing.T) {
	t.Parallel()
	stored := &events.Execution{RunID: "t-1", Shown: []events.ShownBullet{{ID: "a"}, {ID: "b"}}, Cited: []playbook.BulletID{"b"}}
	applied := []history.Reflected{{Version: 7, Cover: playbook.Cover{ID: "a", Evidence: &playbook.Evidence{Reflector: "v1", FeedbackSeq: 3, Outcome: "failure"}}}}
	change := history.Event{Version: 7, Kind: playbook.Pin, Bullet: "a", Op: playbook.Op{Kind: playbook.Pin, Bullet: "a", Pinned: true}}
	for _, test := range []struct {
		name string
		x    Execution
		want []string // in the text, in order
	}{
		{"expired", Execution{Trace: &history.Trace{Reflections: applied}, Analyses: make([]*events.Reflection, 1)}, []string{"has expired", "applied in version 7", "changed nothing"}},
		{
			"applied",
			Execution{
				Execution: stored, Labels: map[uint64]string{7: "7@ab12cd"}, Trace: &history.Trace{Reflections: applied, Events: []history.Event{change}},
				Analyses: []*events.Reflection{{Ignored: []string{"a claim"}}},
			},
			[]string{"run t-1", "shown     a", "cited     b", "after feedback, failure", "ignored   a claim", "7@ab12cd  a pinned"},
		},
		{
			"compared",
			Execution{
				Execution: &events.Execution{RunID: "t-1", OtherTry: &events.Try{Answer: "41", Outcome: events.Outcome{Label: events.Success, Score: 1}}}, Labels: map[uint64]string{7: "7@ab12cd"},
				Trace: &history.Trace{Reflections: applied}, Analyses: []*events.Reflection{{OtherRun: &events.OtherRun{Execution: "3-ab12cd34", Label: events.Success}}},
			},
			[]string{"another answer to the task: success 1.00, \"41\"", "Reflected on by v1", "compared with another run of the task: 3-ab12cd34, success"},
		},
		{"evaluation", Execution{Execution: &events.Execution{Purpose: events.Evaluate}, Trace: &history.Trace{}}, []string{"no bullets shown", "evaluation"}},
		{"without an outcome", Execution{Execution: stored, Trace: &history.Trace{}}, []string{"  outcome   unknown\n"}},
		{"expired, without an outcome", Execution{Trace: &history.Trace{Reflections: []history.Reflected{{Cover: playbook.Cover{Evidence: &playbook.Evidence{Outcome: "unknown"}}}}}, Analyses: make([]*events.Reflection, 1)}, []string{"  outcome   unknown\n"}},
		{"nothing", Execution{Execution: stored, Trace: &history.Trace{}}, []string{"No version has a reflection"}},
	} {
		rest := test.x.Text()
		for _, want := range test.want {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%s: %q not found in\n%s", test.name, want, test.x.Text())
				break
			}
			rest = after
		}
	}
}
