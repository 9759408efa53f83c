package rules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"debrief/events"
)

// recorded adds n runs of each of some tasks. do returns the calls of a run and whether it succeeds.
func recorded(a *Analysis, tasks, n int, do func(task, run int) (calls []string, success bool), change ...func(*events.Execution)) {
	for task := range tasks {
		for run := range n {
			calls, success := do(task, run)
			label := events.Failure
			if success {
				label = events.Success
			}
			e := executionOf(label, calls...)
			e.ID, e.Origin.Task = events.ID(fmt.Sprintf("e%d-%d", task, run)), fmt.Sprint("task ", task)
			for _, c := range change {
				c(e)
			}
			a.Add(e)
		}
	}
}

// looksFirst is a habit that decides about success: every other run has it.
func looksFirst(task, run int) ([]string, bool) {
	if (task+run)%2 == 0 {
		return []string{fmt.Sprintf(`look {"id":"%d"} => x`, task), fmt.Sprintf(`act {"id":"%d"} => ok`, task)}, true
	}
	return []string{fmt.Sprintf(`act {"id":"%d"} => ok`, task)}, false
}

func habitsOf(r *Result) (contents []string) {
	for _, l := range r.Lessons {
		if l.Habit != nil {
			contents = append(contents, l.Content)
		}
	}
	return contents
}

func TestAnalysisFindsAHabit(t *testing.T) {
	t.Parallel()
	a := NewAnalysis()
	recorded(a, 20, 4, looksFirst)
	r := a.Result()
	if got := habitsOf(&r); len(got) != 1 || got[0] != "Before `act`, call `look` first." {
		t.Fatalf("got %q, want the one habit in its shortest form", got)
	}
	l := r.Lessons[len(r.Lessons)-1]
	if h := l.Habit; h.DidSuccess != 40 || h.DidFailure != 0 || h.DidNotSuccess != 0 || h.DidNotFailure != 40 {
		t.Errorf("got counts %+v", h.Counts)
	}
	if want := "in 20 tasks with successful and failed runs: 40 of 40 runs with it and 0 of 40 without it succeeded"; !strings.HasPrefix(l.Evidence, want) {
		t.Errorf("got %q, want %q", l.Evidence, want)
	}
	if got := r.Explain(); !strings.HasPrefix(got, "1 habit separates success from failure") {
		t.Errorf("got %q", got)
	}
}

func TestAnalysisShowsNothingWithoutComparison(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		tasks  int
		runs   int
		change func(*events.Execution)
		want   string
	}{
		{"one run a task", 80, 1, nil, "No task has successful and failed runs of one agent"},
		{"an agent for each outcome", 20, 4, func(e *events.Execution) { e.Model = string(e.Outcome.Label) }, "No task has successful and failed runs of one agent"},
		{"unknown tasks", 20, 4, func(e *events.Execution) { e.Origin.Task = "" }, "No run has both an outcome and a tool call"},
		{"unknown outcomes", 20, 4, func(e *events.Execution) { e.Outcome.Label = events.Unknown }, "No run has both an outcome and a tool call"},
		{"no calls", 20, 4, func(e *events.Execution) { e.Steps = nil }, "No run has both an outcome and a tool call"},
		{"few runs", 3, 2, nil, "These runs show no habit that separates success from failure"},
	} {
		a := NewAnalysis()
		change := test.change
		if change == nil {
			change = func(*events.Execution) {}
		}
		recorded(a, test.tasks, test.runs, looksFirst, change)
		r := a.Result()
		if got := habitsOf(&r); len(got) > 0 {
			t.Errorf("%s: got %q, want no habit", test.name, got)
		}
		if got := r.Explain(); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// A run that was shown the advice to call a tool is no evidence for this tool.
func TestObedienceIsNoEvidence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Before you act, call `look` with the same id.": 0, "Looking around and lookups_of_all are fine.": 1, "": 1,
	} {
		a := NewAnalysis()
		recorded(a, 20, 4, looksFirst, func(e *events.Execution) {
			e.Shown = []events.ShownBullet{{ID: "x-1", Content: text}}
		})
		r := a.Result()
		if got := habitsOf(&r); len(got) != want {
			t.Errorf("shown %q: got %q, want %d habits", text, got, want)
		}
	}
}

func TestEvaluationsTeachNothing(t *testing.T) {
	t.Parallel()
	a := NewAnalysis()
	recorded(a, 20, 4, looksFirst, func(e *events.Execution) { e.Purpose = events.Evaluate })
	if r := a.Result(); r.Runs != 0 || len(r.Lessons) != 0 {
		t.Errorf("got %+v", r)
	}
}

// The order of the runs changes nothing, and a result can be encoded.
func TestAnalysisDoesNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	encode := func(reverse bool) string {
		a := NewAnalysis()
		recorded(a, 20, 4, func(task, run int) ([]string, bool) {
			if reverse {
				task, run = 19-task, 3-run
			}
			return looksFirst(task, run)
		}, func(e *events.Execution) {
			if !reverse {
				return
			}
			var task int
			_, _ = fmt.Sscanf(e.Origin.Task, "task %d", &task)
			e.Origin.Task = fmt.Sprint("task ", 19-task)
		})
		raw, err := json.Marshal(a.Result())
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if x, y := encode(false), encode(true); x != y {
		t.Errorf("got %s\nand %s", x, y)
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		content, name string
		want          bool
	}{
		{"call `get_user` first", "get_user", true},
		{"get_user", "get_user", true},
		{"get_users and forget_user", "get_user", false},
		{"forget_user, then get_user.", "get_user", true},
		{"anything", "", false},
	} {
		if got := mentions(test.content, test.name); got != test.want {
			t.Errorf("%q in %q: got %t", test.name, test.content, got)
		}
	}
}

// TestMemoryOfRuns checks the memory that an analysis keeps for each run: there may be hundreds of thousands.
func TestMemoryOfRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	const tasks, repeats, limit = 1000, 4, 1200 // bytes
	rng := rand.New(rand.NewPCG(1, 2))
	calls := make([]string, 30)
	a := NewAnalysis()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	add := func() {
		recorded(a, tasks, repeats, func(task, run int) ([]string, bool) {
			for i := range calls {
				calls[i] = fmt.Sprintf(`tool_%c {"id":"%d"} => ok`, 'a'+rune(rng.IntN(16)), i)
			}
			return calls, run%2 == 0
		})
	}
	add() // the habits themselves
	before := heap()
	add()
	kept := int64(heap()) - int64(before)
	t.Logf("%d bytes for each run with %d habits in all", kept/(tasks*repeats), len(a.facts))
	if kept > tasks*repeats*limit {
		t.Errorf("got %d bytes for each run, want at most %d", kept/(tasks*repeats), limit)
	}
	runtime.KeepAlive(a)
}

// TestErrorsWithoutALesson checks that the result counts errors that teach nothing, and says why.
func TestErrorsWithoutALesson(t *testing.T) {
	t.Parallel()
	a := NewAnalysis()
	for task := range 2 {
		e := executionOf(events.Success, `get {"id":7} => Error: id must be a text`, `get {"id":"7"} => x`)
		e.ID, e.Question = events.ID(fmt.Sprint("e", task)), fmt.Sprint("task ", task)
		a.Add(e)
		r := a.Result()
		if lessons := len(r.Lessons); r.ToolErrors != 1 || lessons != task {
			t.Errorf("after %d runs: got %d errors, lessons %+v", task+1, r.ToolErrors, r.Lessons)
		}
		if got := r.Explain(); strings.HasPrefix(got, "1 error of tools, but no change") != (task == 0) {
			t.Errorf("after %d runs: got %q", task+1, got)
		}
	}
}

// TestTasksOfErrors checks that runs of one task count once as a task, whatever names the task, and that two names of one content do not
// make two tasks.
func TestTasksOfErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		set  func(e *events.Execution, i int)
		want int
	}{
		{"one name", func(e *events.Execution, _ int) { e.Origin.Task = "same" }, 0},
		{"two names", func(e *events.Execution, i int) { e.Origin.Task = fmt.Sprint(i) }, 1},
		{"two names of one content", func(e *events.Execution, i int) { e.Origin.Task, e.Question = fmt.Sprint(i), "same" }, 0},
		{"two names of one question", func(e *events.Execution, i int) {
			e.Origin.Task, e.Question = fmt.Sprint(i), "same"
			for j := range e.Steps {
				e.Steps[j].Calls[0].Arguments = fmt.Sprintf(`{"url":"page-%d"}`, i)
			}
		}, 1},
		{"one question", func(e *events.Execution, _ int) { e.Question = "same" }, 0},
		{"one question in two contexts", func(e *events.Execution, i int) { e.Question, e.Context = "same", fmt.Sprint(i) }, 1},
		{"one session", func(e *events.Execution, _ int) { e.Session, e.Turn = "same", 2 }, 0},
		{"two sessions", func(e *events.Execution, i int) { e.Session, e.Turn = fmt.Sprint(i), 2 }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := NewAnalysis()
			for i := range 2 {
				e := executionOf(events.Unknown, `fetch {"url":"page"} => Error: timed out`, `fetch {"url":"page"} => ok`)
				e.ID, e.RunID, e.Origin.Task, e.Question = events.ID(fmt.Sprint(i)), fmt.Sprint(i), "", fmt.Sprint("question ", i)
				test.set(e, i)
				a.Add(e)
			}
			if r := a.Result(); len(r.Lessons) != test.want {
				t.Errorf("got %+v, want %d lessons", r.Lessons, test.want)
			}
		})
	}
}
