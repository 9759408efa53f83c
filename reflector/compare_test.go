package reflector

import (
	"fmt"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
)

func TestTaskKey(t *testing.T) {
	t.Parallel()
	task := func(change func(*events.Execution)) events.ID {
		e := &events.Execution{TaskID: "epoch-1/q", Question: "How far?", Context: "a map", Turn: 1}
		e.Book = "b"
		change(e)
		return taskKey(e)
	}
	same := task(func(*events.Execution) {})
	if got := task(func(e *events.Execution) { e.TaskID, e.Session = "epoch-2/q", "s" }); got != same || same == "" {
		t.Errorf("another epoch: got %q, want %q", got, same)
	}
	for name, change := range map[string]func(*events.Execution){
		"another question": func(e *events.Execution) { e.Question = "How near?" },
		"another context":  func(e *events.Execution) { e.Context = "a chart" },
		"another book":     func(e *events.Execution) { e.Book = "c" },
		"a recorded task":  func(e *events.Execution) { e.Origin.Task = "tau-bench/x/1" },
	} {
		if got := task(change); got == same || got == "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := task(func(e *events.Execution) { e.Turn = 2 }); got != "" {
		t.Errorf("a later turn: got %q, want none", got)
	}
	reworded := func(e *events.Execution) { e.Origin.Task, e.Question = "tau-bench/x/1", fmt.Sprint(len(e.Question)) }
	if a, b := task(reworded), task(func(e *events.Execution) { e.Question = "?"; reworded(e) }); a != b {
		t.Errorf("one recorded task in other words: got %q and %q", a, b)
	}
}

// taskRun returns a run of a task that calls these tools.
func taskRun(task string, label events.Label, tools ...string) *events.Execution {
	e := failingRun(task, events.Learn)
	e.Question, e.Steps = "the same question", nil
	e.Outcome.Label = label
	for _, tool := range tools {
		e.Steps = append(e.Steps, events.Step{Speaker: "assistant", Calls: []events.ToolCall{{Tool: tool, Arguments: `{"id":1}`, Output: "x", Outcome: events.Success}}})
	}
	return e
}

// The test calls handle as deliveries do: each run is handled before the next.
func TestCompareRunsOfOneTask(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	windows := window.New(conn.NATS(), conn.JetStream())
	r := New(nil, Config{})
	places := map[string]uint64{} // one stored copy of each
	last := uint64(0)
	pairs := func(e *events.Execution) map[string]events.Vote {
		t.Helper()
		if last++; places[e.TaskID] == 0 {
			places[e.TaskID] = last
		}
		got := r.handle(t.Context(), conn, windows, &bus.Delivery{Event: e, Seq: places[e.TaskID]})
		if got.Err != nil || len(got.Events) != 1 {
			t.Fatalf("got %+v, want a reflection", got)
		}
		if err := got.AfterStore(t.Context(), bus.Receipt{}); err != nil {
			t.Fatal(err)
		}
		found := map[string]events.Vote{}
		for _, f := range got.Events[0].(*events.Reflection).Findings {
			if f.Paired {
				found[f.Key] = f.Vote
			}
		}
		return found
	}
	want := func(name string, got map[string]events.Vote, keys ...string) {
		t.Helper()
		wanted := map[string]events.Vote{}
		if len(keys) > 0 {
			wanted[keys[0]], wanted[keys[1]] = events.Helpful, events.Harmful
		}
		if fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Errorf("%s: got %v, want %v", name, got, wanted)
		}
	}
	failed := taskRun("1", events.Failure, "get", "book")
	want("the first", pairs(failed))
	want("the same one delivered again", pairs(failed))
	want("another failure", pairs(taskRun("2", events.Failure, "get", "cancel")))
	places["1"] = 0
	want("the first one, stored once more, which is not the last failure", pairs(failed))
	want("a success, against the last failure", pairs(taskRun("3", events.Success, "get", "check", "book")), "pair/get/check/cancel", "pair/get/cancel/check")
	want("a failure, against the success", pairs(taskRun("4", events.Failure, "get", "book")), "pair/get/check/book", "pair/get/book/check")
	unknown := taskRun("5", events.Unknown, "get", "book")
	unknown.Steps = append(unknown.Steps, failingRun("x", events.Learn).Steps...)
	want("an unknown outcome", pairs(unknown))
	other := taskRun("6", events.Failure, "get", "book")
	other.Question = "another question"
	want("another task", pairs(other))

	// A run with a corrected outcome is not compared with itself, and is no longer stored under its old outcome.
	corrected := taskRun("4", events.Success, "get", "book")
	want("the failure corrected to a success", pairs(corrected))
	want("a success, with no failure known", pairs(taskRun("7", events.Success, "sing", "dance")))
}
