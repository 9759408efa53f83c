package books

import (
	"strings"
	"testing"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/explain"
	"debrief/events"
)

// TestWhatTheReflectorSaw prints another answer and another run below a context, the run once, also if two reflections name it.
func TestWhatTheReflectorSaw(t *testing.T) {
	t.Parallel()
	other := &events.OtherRun{Execution: "3-ab12cd34", Label: events.Success}
	x := &explain.Execution{
		Execution: &events.Execution{OtherTry: &events.Try{Answer: "41", Outcome: events.Outcome{Label: events.Failure}}},
		Analyses:  []*events.Reflection{nil, {OtherRun: other}, {OtherRun: other}, {}},
	}
	const want = "\nBeside this execution, the Reflector saw:\n" +
		"  another answer to the task: failure 0.00, \"41\"\n" +
		"  compared with another run of the task: 3-ab12cd34, success\n"
	var got strings.Builder
	if writeReflectorSaw(&got, x); got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
	got.Reset()
	if writeReflectorSaw(&got, &explain.Execution{}); got.String() != "" {
		t.Errorf("without a comparison: got %q", got.String())
	}
}

// TestWindow prints a window with a marked turn in it and another one before it.
func TestWindow(t *testing.T) {
	t.Parallel()
	turn := func(h events.Handle) *events.Interaction {
		return &events.Interaction{Execution: h, Question: "q" + string(h)}
	}
	var got strings.Builder
	err := writeWindow(&got, &api.SessionWindow{
		Interactions: []*events.Interaction{turn("3-a"), turn("4-b")},
		Marks:        []events.MarkedInteraction{{Mark: events.Pin, Interaction: *turn("1-c")}, {Mark: events.Star, Interaction: *turn("4-b")}},
		Damaged:      2,
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	if len(lines) != 6 || strings.Contains(lines[1], "star") || !strings.Contains(lines[2], "star") || lines[3] != "pin, older than the window: 1-c q1-c" || lines[4] != "2 entries are damaged." {
		t.Errorf("got %q", got.String())
	}
}
