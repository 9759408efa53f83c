package api

import (
	"fmt"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// TestCompareRuns pairs the newest answers of two runs to the same samples.
func TestCompareRuns(t *testing.T) {
	t.Parallel()
	w := startWorld(t, Options{})
	w.seed(t)
	answer := func(run playbook.Book, task string, label events.Label, purpose events.Purpose) {
		t.Helper()
		e := &events.Execution{Book: run, ID: events.NewID(), RunID: task, Question: "q of " + task, Target: "42", Answer: string(label), Outcome: events.Outcome{Label: label}, Purpose: purpose, Started: time.Now().UTC()}
		if _, err := w.conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		answer("run-1", fmt.Sprintf("test@0/s%d", i), events.Failure, events.Evaluate) // before the run: replaced
	}
	for i := range 6 {
		answer("run-1", fmt.Sprintf("test@9/s%d", i), events.Success, events.Evaluate)
		answer("run-2", fmt.Sprintf("test@7/s%d", i), []events.Label{events.Failure, events.Success}[i%2], events.Evaluate)
	}
	answer("run-1", "test@9/s6", events.Failure, events.Evaluate)
	answer("run-2", "test@7/s6", events.Success, events.Evaluate)
	answer("run-1", "test@9/only-here", events.Success, events.Evaluate)
	answer("run-1", "test@9/s7", events.Unknown, events.Evaluate)
	answer("run-2", "test@7/s7", events.Success, events.Evaluate)
	answer("run-2", "test@7/s1", events.Failure, events.Learn) // not an evaluation
	reply, _ := w.send(t, 200, "GET", "/runs/run-1/compare/run-2", "")
	pair, _ := reply["pair"].(map[string]any)
	run, _ := reply["run"].(map[string]any)
	accuracy, _ := run["accuracy"].(map[string]any)
	if got := fmt.Sprint(reply["set"], " n=", pair["n"], " wins=", pair["wins"], " losses=", pair["losses"], " v", run["version"], " of ", accuracy["n"]); got != "test n=7 wins=3 losses=1 v9 of 8" {
		t.Errorf("got %s", got)
	}
	differ, _ := reply["differ"].([]any)
	last, _ := differ[len(differ)-1].(map[string]any)
	if len(differ) != 4 || last["sample"] != "s6" || last["right"] != false || last["target"] != "42" || last["other_answer"] != "success" {
		t.Errorf("got %v", differ)
	}
	reply, _ = w.send(t, 200, "GET", "/runs/run-2/compare/run-1?limit=1", "")
	if pair, _ = reply["pair"].(map[string]any); pair["wins"] != 1.0 || len(reply["differ"].([]any)) != 1 {
		t.Errorf("in the other order: got %v", reply)
	}
	w.send(t, 404, "GET", "/runs/run-1/compare/run-9", "")
	w.send(t, 400, "GET", "/runs/run-1/compare/a%2Fb", "")
}
