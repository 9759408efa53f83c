package reflector

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
)

func TestFirstDifference(t *testing.T) {
	t.Parallel()
	const tail = ": of two runs at one task, the one that succeeded did so in {helpful} pairs, the one that failed in {harmful}."
	tests := []struct {
		name      string
		good, bad []string
		key, text string // of the first finding; empty: no difference
	}{
		{"another call", []string{"get(id)", "check(id)", "book(id)"}, []string{"get(id)", "book(id)"}, "pair/get/check/book", "After `get`, call `check` and not `book`" + tail},
		{"other arguments", []string{"get(id)", "book(id, seat)"}, []string{"get(id)", "book(id)"}, "pair/get/book(id, seat)/book(id)", "After `get`, call `book(id, seat)` and not `book(id)`" + tail},
		{"at the start", []string{"a"}, []string{"b"}, "pair/the start/a/b", "After the start, call `a` and not `b`" + tail},
		{"the failed one stopped", []string{"a", "b"}, []string{"a"}, "pair/a/b/nothing more", "After `a`, go on to `b`" + tail},
		{"the failed one went on", []string{"a"}, []string{"a", "b"}, "pair/a/nothing more/b", "After `a`, do not go on to `b`" + tail},
		{"the same", []string{"a", "b"}, []string{"a", "b"}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := firstDifference(tt.good, tt.bad)
			if tt.key == "" {
				if len(found) > 0 {
					t.Errorf("got %s, want nothing", toJSON(found))
				}
				return
			}
			checkBounds(t, found)
			if len(found) != 2 || found[0].Key != tt.key || found[0].Text != tt.text || found[0].Vote != events.Helpful || !found[0].Paired {
				t.Errorf("got %s\nwant %q: %s", toJSON(found), tt.key, tt.text)
			}
			reversed := firstDifference(tt.bad, tt.good)
			if found[1].Key != reversed[0].Key || found[1].Vote != events.Harmful || reversed[1].Key != found[0].Key || reversed[1].Vote != events.Harmful {
				t.Errorf("got %s\nreversed: %s, want the same two keys with the votes swapped", toJSON(found), toJSON(reversed))
			}
		})
	}
}

func TestCallNames(t *testing.T) {
	t.Parallel()
	e := executionOf(events.Success, `get {"b":1,"a":"secret"} => x`, `get {"a":2,"b":3} => y`, `bash {"command":"cd /x && git status; pytest -q"} => ok`, `open src/a.py => x`, `edit 1:1 => ok`)
	if got, want := callNames(e), []string{"get(a, b)", "git status", "pytest", "open .py", "edit .py"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var many []string
	for i := range 2 * window.MaxRunCalls {
		many = append(many, fmt.Sprintf("tool%d {} => x", i))
	}
	if got := len(callNames(executionOf(events.Success, many...))); got != window.MaxRunCalls {
		t.Errorf("got %d calls, want %d", got, window.MaxRunCalls)
	}
}

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
		for _, f := range findingsOf(pairRule, got.Events[0].(*events.Reflection).Findings) {
			found[f.Key] = f.Vote
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

// The votes of the two bullets of a pair mirror each other.
func TestOppositeFindingsCountAllPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.SampledFrom([]string{"a(x)", "a(x, y)", "b", "c"}), 1, 4)
		votes := map[string][2]int{}
		for range rapid.IntRange(1, 20).Draw(t, "pairs") {
			found := firstDifference(calls.Draw(t, "good"), calls.Draw(t, "bad"))
			for _, f := range found {
				v := votes[f.Key]
				if f.Vote == events.Helpful {
					v[0]++
				} else {
					v[1]++
				}
				votes[f.Key] = v
			}
			if len(found) == 2 {
				a, b := votes[found[0].Key], votes[found[1].Key]
				if a[0] != b[1] || a[1] != b[0] {
					t.Fatalf("%s: %v, %s: %v", found[0].Key, a, found[1].Key, b)
				}
			}
		}
	})
}
