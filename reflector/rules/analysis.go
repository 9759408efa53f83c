// Package rules finds lessons in recorded runs without a model. It does no I/O.
//
// A run becomes a list of acts: calls of functions, and the single commands of shells. An [Analysis] compares the acts of all runs:
//
//   - An error of a tool teaches what changed before the call worked. A failed act and the next act of the same name about the same
//     object are a pair. Arguments, options of a command and calls in between are compared exactly. A change is a remedy if the call
//     worked after it in two tasks at least, and in most runs with the error. A call in between is no remedy if it also stands between
//     calls that did not fail. Errors without a remedy, and errors whose text already names it, teach nothing: [Errors.Known] reports
//     them.
//   - A habit, such as one tool before another, teaches something if it separates successful from failed runs of the same task beyond
//     chance.
//
// The files follow these steps: acts.go, kinds.go, arguments.go and commands.go make acts. message.go, pairs.go, changes.go, failures.go,
// errors.go and lessons.go find remedies. habits.go observes habits; compare.go and exact.go test them. quoting.go decides which words of
// a run a lesson may contain.
package rules

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"debrief/events"
	"debrief/playbook/text"
)

// Analysis collects recorded runs and finds their lessons. Its memory is bounded for each run. It is not safe for concurrent
// use.
type Analysis struct {
	errors *Errors
	facts  []*fact // by number
	byKey  map[factKey]*fact
	runs   []comparedRun
	result Result
}

// fact is something that a run did: it followed a habit, or it was in a situation, so that it could follow one.
type fact struct {
	habit
	key    factKey
	number int32
}

// Limits of an analysis.
const (
	maxFacts     = 1 << 16
	maxTextBytes = 2 << 10 // of a shown bullet that are searched for names of tools
	maxExamples  = 16      // executions of a lesson
)

// comparedRun is a run with an outcome.
type comparedRun struct {
	id      events.ID
	stratum stratum
	success bool
	facts   []int32                 // numbers, sorted
	shown   []unique.Handle[string] // the texts of the bullets
}

// stratum is a task and an agent. Only runs of one stratum are compared.
type stratum struct{ task, agent unique.Handle[string] }

func (r *comparedRun) has(number int32) bool {
	_, ok := slices.BinarySearch(r.facts, number)
	return ok
}

// Lesson is an advice that the runs support.
type Lesson struct {
	Section string `json:"section"`
	Content string `json:"content"` // plain text without counts
	// Evidence describes the counts for people. Habit or Error has them for programs.
	Evidence string `json:"evidence"`
	// Executions are examples that support the lesson, at most maxExamples.
	Executions []events.ID    `json:"executions"`
	Habit      *Contrast      `json:"habit,omitempty"`
	Error      *ErrorEvidence `json:"error,omitempty"`
}

// Result is the result of an analysis.
type Result struct {
	Runs      int `json:"runs"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"` // the others have no outcome, or a partial one
	// Copies counts the runs with the question and the calls of a run of another task. They teach nothing.
	Copies int `json:"copies,omitempty"`
	// Compared counts the runs with an outcome and a tool call. Only they can show habits.
	Compared int `json:"compared"`
	// ToolErrors counts the different errors of tools, with or without a lesson.
	ToolErrors int `json:"tool_errors"`
	// Known has the errors of tools that agents repeated. They are a report and teach nothing.
	Known []Known `json:"known_errors,omitempty"`
	// Omitted counts the observations beyond the limit of an analysis.
	Omitted int      `json:"omitted,omitempty"`
	Lessons []Lesson `json:"lessons"`
	// Contrasts has the counts behind the habits.
	Contrasts Comparison `json:"contrasts"`
}

// NewAnalysis returns an analysis without runs.
func NewAnalysis() *Analysis {
	return &Analysis{errors: NewErrors(), byKey: map[factKey]*fact{}}
}

// Add adds a run. It ignores evaluations: they must not teach.
func (a *Analysis) Add(e *events.Execution) {
	if e.Purpose == events.Evaluate {
		return
	}
	a.result.Runs++
	task := TaskOf(e)
	if a.errors.isCopy(e, task) {
		a.result.Copies++
		return
	}
	r := newRun(e)
	a.errors.add(e, r, task)
	switch e.Outcome.Label {
	case events.Success:
		a.result.Succeeded++
	case events.Failure:
		a.result.Failed++
	default:
		return
	}
	if task == "" || len(r.calls) == 0 {
		return
	}
	a.result.Compared++
	c := comparedRun{id: e.ID, success: e.Outcome.Label == events.Success}
	c.stratum = stratum{unique.Make(task), unique.Make(e.Origin.Source + "\x00" + e.Model)}
	found := r.observe()
	for _, key := range slices.SortedFunc(maps.Keys(found), compareKeys) {
		if f := a.fact(key, found[key]); f != nil {
			c.facts = append(c.facts, f.number)
		}
	}
	slices.Sort(c.facts)
	c.facts = slices.Clip(c.facts)
	for i := range e.Shown {
		c.shown = append(c.shown, unique.Make(text.Prefix(e.Shown[i].Content, maxTextBytes)))
	}
	a.runs = append(a.runs, c)
}

// fact returns the fact with a key. It returns nil for a new fact beyond maxFacts. A nil describe makes a situation without a habit.
func (a *Analysis) fact(key factKey, describe func() habit) *fact {
	f := a.byKey[key]
	if f == nil && len(a.facts) >= maxFacts {
		a.result.Omitted++
		return nil
	}
	if f == nil {
		f = &fact{key: key, number: int32(len(a.facts))}
		if describe != nil {
			f.habit = describe()
		}
		a.facts = append(a.facts, f)
		a.byKey[key] = f
	}
	return f
}

// TaskOf returns a name that all attempts at a task share, whatever their ids: the name of the task at its source, else the question
// with its context. It returns "" for a later turn of a session, whose question depends on the session.
func TaskOf(e *events.Execution) string {
	switch {
	case e.Origin.Task != "":
		return e.Origin.Task
	case e.Turn > 1 || strings.TrimSpace(e.Question) == "":
		return ""
	}
	return string(events.Hash("same question", e.Question, e.Context))
}

// HasSignal reports whether an execution without an outcome can teach something: it has two tool calls, or a failed one.
func HasSignal(e *events.Execution) bool {
	calls := 0
	for _, s := range e.Steps {
		for _, c := range s.Calls {
			calls++
			if calls > 1 || c.Outcome.Failed() {
				return true
			}
		}
	}
	return false
}

// Result returns the lessons of all runs so far, errors first, then habits with the strongest evidence first.
func (a *Analysis) Result() Result {
	result := a.result
	result.ToolErrors, result.Known = len(a.errors.failures), a.errors.Known()
	result.Lessons = a.errors.Lessons()
	compared, shown := a.testHabits()
	result.Contrasts = compared
	for _, c := range shown {
		if l, ok := a.habitLesson(c); ok {
			result.Lessons = append(result.Lessons, l)
		}
	}
	return result
}

// habitLesson returns the lesson of a contrast. Of several habits that the runs cannot tell apart it takes the shortest advice.
func (a *Analysis) habitLesson(c *Contrast) (Lesson, bool) {
	l := Lesson{Habit: c, Evidence: c.String()}
	var best *fact
	for _, f := range c.habits {
		content := f.advice
		if !c.Helps {
			content = f.avoid
		}
		if content != "" && (l.Content == "" || len(content) < len(l.Content)) {
			best = f
			l.Section = f.section
			l.Content = content
		}
	}
	if l.Content == "" || !namesOnly(l.Content) {
		return l, false
	}
	l.Executions = a.examples(best, c.Helps)
	return l, true
}

// examples returns the first runs that have the habit f and ended as success says.
func (a *Analysis) examples(f *fact, success bool) (ids []events.ID) {
	for i := range a.runs {
		if r := &a.runs[i]; r.success == success && r.has(f.number) && len(ids) < maxExamples {
			ids = append(ids, r.id)
		}
	}
	return ids
}
