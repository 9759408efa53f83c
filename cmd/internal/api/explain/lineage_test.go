package explain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

// fakeEvidence has stored executions by handle, and reflections by the id of their cover. It counts the reads.
type fakeEvidence struct {
	executions  map[string]*events.Execution
	reflections map[string]*events.Reflection
	reads       int
}

func (f *fakeEvidence) Execution(_ context.Context, handle string) (*events.Execution, error) {
	f.reads++
	return f.executions[handle], nil
}

func (f *fakeEvidence) Reflection(_ context.Context, c playbook.Cover) (*events.Reflection, error) {
	return f.reflections[c.ID], nil
}

// handle returns the handle of an execution; n begins at 0.
func handle(n int) string { return fmt.Sprintf("%d-ab12cd34", n+1) }

// covers returns n covers with evidence, and one of an edit.
func covers(n int) []playbook.Cover {
	list := []playbook.Cover{{ID: "edit"}}
	for i := range n {
		list = append(list, playbook.Cover{ID: fmt.Sprint(i), Evidence: &playbook.Evidence{Execution: handle(i)}})
	}
	return list
}

func TestBulletTextListsExecutions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		kind    playbook.OpKind
		support int
		extent  Extent
		listed  int // executions that are read and described
		more    bool
	}{
		{"few", playbook.Add, 2, FirstExecutions, 2, false},
		{"many", playbook.Add, 5, FirstExecutions, firstFew, true},
		{"all of many", playbook.Add, 5, AllExecutions, 5, false},
		{"votes", playbook.Tag, 2, FirstExecutions, 0, false},
		{"as many votes as are listed", playbook.Tag, firstFew, FirstExecutions, 0, false},
		{"many votes", playbook.Tag, 5, FirstExecutions, 0, true},
		{"all votes", playbook.Tag, 5, AllExecutions, 5, false},
		{"edit", playbook.Add, 0, FirstExecutions, 0, false},
	} {
		x := &Bullet{Labels: map[uint64]string{1: "1@ab12cd"}, Lineage: &history.Lineage{
			Bullet: "a", Current: &playbook.Bullet{ID: "a", Section: "misc", Content: "x"},
			Events: []history.Event{{Version: 1, Kind: test.kind, Bullet: "a", Support: covers(test.support), Op: playbook.Op{Kind: test.kind, Bullet: "a", Helpful: 1}}},
		}}
		ev := &fakeEvidence{executions: map[string]*events.Execution{handle(0): {RunID: "t-1"}}}
		if err := x.Load(t.Context(), ev, test.extent); err != nil {
			t.Fatal(err)
		}
		text := x.Text(test.extent)
		if ev.reads != test.listed || strings.Contains(text, "more\n") != test.more || strings.Contains(text, "run t-1") != (test.listed > 0) {
			t.Errorf("%s: got %d executions in\n%s", test.name, ev.reads, text)
		}
	}
}

func TestBulletTextNamesWhatTheReflectorSaw(t *testing.T) {
	t.Parallel()
	x := &Bullet{Labels: map[uint64]string{}, Lineage: &history.Lineage{
		Bullet: "a", Current: &playbook.Bullet{ID: "a", Section: "misc", Content: "x"},
		Events: []history.Event{{Version: 1, Kind: playbook.Add, Bullet: "a", Support: covers(2), Op: playbook.Op{Kind: playbook.Add, Bullet: "a"}}},
	}}
	ev := &fakeEvidence{
		executions:  map[string]*events.Execution{handle(0): {RunID: "t-1", OtherTry: &events.Try{Answer: "41", Outcome: events.Outcome{Label: events.Failure}}}},
		reflections: map[string]*events.Reflection{"1": {OtherRun: &events.OtherRun{Execution: events.Handle(handle(8)), Label: events.Success}}},
	}
	if err := x.Load(t.Context(), ev, FirstExecutions); err != nil {
		t.Fatal(err)
	}
	text := x.Text(FirstExecutions)
	for _, want := range []string{"another answer to the task: failure 0.00, \"41\"", "compared with another run of the task: " + handle(8) + ", success"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once, got\n%s", want, text)
		}
	}
}

func TestBulletTextOfRemoved(t *testing.T) {
	t.Parallel()
	x := &Bullet{Labels: map[uint64]string{2: "2@ab12cd"}, Lineage: &history.Lineage{
		Bullet: "a", RemovedBy: &history.Event{Version: 2, Kind: playbook.Remove}, Summary: history.Summary{Author: "ann"},
	}}
	text := x.Text(FirstExecutions)
	if first, _, _ := strings.Cut(text, "\n"); !strings.HasSuffix(first, "remove in 2@ab12cd.") {
		t.Errorf("got %q", text)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	support := append(covers(2), playbook.Cover{ID: "foreign", Evidence: &playbook.Evidence{Execution: "run/7"}})
	x := &Bullet{Lineage: &history.Lineage{Events: []history.Event{{Support: support}}}}
	ev := &fakeEvidence{executions: map[string]*events.Execution{handle(0): {RunID: "t-1"}}}
	if err := x.Load(t.Context(), ev, AllExecutions); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(x.Executions))
	if !slices.Equal(got, []string{handle(0), handle(1)}) || x.Executions[handle(0)] == nil || x.Executions[handle(1)] != nil {
		t.Errorf("got %v, want a stored execution, an expired one, and none of another system", x.Executions)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		lineage history.Lineage
		want    string
	}{
		{history.Lineage{}, "Learned from no execution."},
		{history.Lineage{Summary: history.Summary{LearnedFrom: map[string]int{"success": 2, "unknown": 1}}}, "Learned from 3 executions (2 success, 1 unknown)."},
		{history.Lineage{Summary: history.Summary{Helped: 2, NoEffect: 83}}, "Helped in 2, harmed in 0, no effect in 83."},
		{history.Lineage{Summary: history.Summary{Forgotten: 4}}, "4 were forgotten"},
		{history.Lineage{Merged: []string{"b", "c"}}, "b, c merged into it"},
	} {
		if got := summary(&test.lineage); !strings.Contains(got, test.want) {
			t.Errorf("got %q, want %q in it", got, test.want)
		}
	}
}
