package reflector

import (
	"fmt"
	"sync/atomic"
	"testing"

	"debrief/events"
)

func TestAwaitingLearnsTheShareOfFeedback(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		executions int
		every      int // one execution of so many gets feedback; 0 for none
		want       bool
	}{
		{"all", 30, 1, true},
		{"too few to know", 5, 1, false},
		{"half", 400, 2, false},
		{"none", 400, 0, false},
	} {
		var a awaiting
		var got bool
		for i := range test.executions {
			got = a.countOpen("b")
			if test.every > 0 && i%test.every == 0 {
				a.countFeedback("b")
			}
		}
		if got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
		if a.countOpen("another") {
			t.Errorf("%s: another book waits", test.name)
		}
	}
}

func TestAwaitingEndsWithTheFeedback(t *testing.T) {
	t.Parallel()
	var a awaiting
	for range 200 {
		a.countOpen("b")
		a.countFeedback("b")
	}
	for n := range awaitedTasks {
		if !a.countOpen("b") {
			if n < 10 {
				t.Errorf("after %d executions without feedback none waits any more: want a few, feedback can be late", n)
			}
			return
		}
	}
	t.Error("executions wait for feedback that no longer comes")
}

// TestOpenExecutionsWaitForTheirFeedback: an agent reports executions without outcomes, and feedback for each. At first there are
// two reflections for each, then one.
func TestOpenExecutionsWaitForTheirFeedback(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	var calls atomic.Int64
	runReflector(t, conn, scriptedModel(func() (string, error) {
		calls.Add(1)
		return `{"key_insight": "Look before you leap into the unknown water."}`, nil
	}))
	const before, after = minAwaited, 8
	known := 0
	report := func(i int) {
		e := failingRun(fmt.Sprint("open", i), events.Learn)
		e.Outcome = events.Outcome{}
		at := publish(t, conn, e)
		if i < before {
			known++
			reflections(t, conn, known)
		} else {
			if err := newWorker(nil, conn).waitReflected(t.Context(), at.Seq); err != nil {
				t.Fatal(err)
			}
		}
		publish(t, conn, feedback(at.Handle, events.Outcome{Label: events.Failure}))
		known++
		last := reflections(t, conn, known)[known-1]
		if last.FirstOutcome != (i >= before) || last.Corrects || last.Handle != at.Handle {
			t.Fatalf("execution %d: got a reflection on %s with first outcome %t and correction %t", i, last.Handle, last.FirstOutcome, last.Corrects)
		}
	}
	for i := range before + after {
		report(i)
	}
	if got, want := calls.Load(), int64(2*before+after); got != want {
		t.Errorf("got %d calls of the model, want %d", got, want)
	}
}
