package books

import (
	"strings"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/events"
)

// TestWhatTheReflectorSaw prints another answer and another run below a context, the run once, also if two reflections name it.
func TestWhatTheReflectorSaw(t *testing.T) {
	t.Parallel()
	other := &events.OtherRun{Execution: "3-ab12cd34", Label: events.Success}
	x := &explain.Execution{
		Execution: &events.Execution{OtherTry: &events.Try{Answer: "41", Outcome: events.Outcome{Label: events.Failure}}},
		Analyses:  []*events.Reflection{nil, {OtherRun: other}, {}},
		Waiting:   &events.Reflection{OtherRun: other},
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
