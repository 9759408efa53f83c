// Package rules finds lessons in recorded runs without a model. An Analysis compares all runs of a data set:
//
//   - An error of a tool teaches what changed before the call worked; see package remedy.
//   - A habit, such as one tool before another, teaches something if it separates successful from failed runs of the same task
//     beyond chance; see package contrast.
//
// It does no I/O.
package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"debrief/events"
	"debrief/playbook/text"
	"debrief/reflector/rules/contrast"
	"debrief/reflector/rules/numset"
	"debrief/reflector/rules/remedy"
)

// Analysis collects recorded runs and finds their lessons. Its memory is bounded for each run. It is not safe for concurrent
// use.
type Analysis struct {
	errors *remedy.Errors

	situations, names table
	habits            map[string]*habit // by key
	texts             table             // texts of shown bullets
	runs              []comparableRun
	result            Result

	did, could, shown []uint32 // of the current run; reused
}

// Limits of an analysis.
const (
	maxHabits    = 1 << 16
	maxTexts     = 1 << 14
	maxTextBytes = 2 << 10 // of a shown bullet that are searched for names of tools
	maxExamples  = 16      // executions of a lesson
)

// comparableRun is a run with an outcome as a set of numbers.
type comparableRun struct {
	id          events.ID
	task, agent uint32 // in names
	success     bool
	situations  numset.Set
	habits      numset.Set // by habit.number
	shown       numset.Set // in texts
}

// Lesson is an advice that the runs support.
type Lesson struct {
	Key     string `json:"key"` // the same in each analysis
	Section string `json:"section"`
	Content string `json:"content"` // plain text without counts
	// Evidence describes the counts for people. Habit or Errors has them for programs.
	Evidence string `json:"evidence"`
	// Executions are examples that support the lesson, at most maxExamples.
	Executions []events.ID `json:"executions"`
	// Opposite is a run of the same task as the first of Executions: it lacks the habit and ended differently. It is empty for a
	// lesson about errors, whose examples have both the failed and the successful call.
	Opposite events.ID          `json:"opposite,omitempty"`
	Habit    *contrast.Contrast `json:"habit,omitempty"`
	Errors   []remedy.Evidence  `json:"errors,omitempty"`
}

// Result is the result of an analysis.
type Result struct {
	Runs      int `json:"runs"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"` // the others have no outcome, or a partial one
	// Compared counts the runs with an outcome and a tool call. Only they can show habits.
	Compared int `json:"compared"`
	// ToolErrors counts the different errors of tools, with or without a lesson.
	ToolErrors int `json:"tool_errors"`
	// Known has the errors of tools that agents repeated. They are a report and teach nothing.
	Known []remedy.Known `json:"known_errors,omitempty"`
	// Omitted counts the habits beyond the limit of an analysis.
	Omitted int      `json:"omitted,omitempty"`
	Lessons []Lesson `json:"lessons"`
	// Contrasts has the counts behind the habits. Its Shown is empty: the lessons have the contrasts.
	Contrasts contrast.Result `json:"contrasts"`
}

// NewAnalysis returns an analysis without runs.
func NewAnalysis() *Analysis {
	return &Analysis{errors: remedy.New(remedy.Config{Task: TaskOf}), habits: map[string]*habit{}}
}

// Add adds a run. It ignores evaluations: they must not teach.
func (a *Analysis) Add(e *events.Execution) {
	if e.Purpose == events.Evaluate {
		return
	}
	a.result.Runs++
	var parts sync.WaitGroup
	parts.Go(func() { a.errors.Add(e) }) // shares nothing with the habits below
	defer parts.Wait()
	switch e.Outcome.Label {
	case events.Success:
		a.result.Succeeded++
	case events.Failure:
		a.result.Failed++
	default:
		return
	}
	task := TaskOf(e)
	t := newRun(e)
	if task == "" || len(t.calls) == 0 {
		return
	}
	a.result.Compared++
	r := comparableRun{id: e.ID, task: a.names.number(task), agent: a.names.number(e.Origin.Source + "\x00" + e.Model), success: e.Outcome.Label == events.Success}
	a.did, a.could, a.shown = a.did[:0], a.could[:0], a.shown[:0]
	t.observe(a)
	for i := range e.Shown {
		if content := text.Prefix(e.Shown[i].Content, maxTextBytes); a.texts.size() < maxTexts || a.texts.has(content) {
			a.shown = append(a.shown, a.texts.number(content))
		}
	}
	r.situations, r.habits, r.shown = numset.New(a.could), numset.New(a.did), numset.New(a.shown)
	a.runs = append(a.runs, r)
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

// situation implements observer.
func (a *Analysis) situation(key string) { a.could = append(a.could, a.situations.number(key)) }

// habit implements observer.
func (a *Analysis) habit(key string, describe func() habit) {
	h := a.habits[key]
	if h == nil {
		if len(a.habits) >= maxHabits {
			a.result.Omitted++
			return
		}
		made := describe()
		h, made.key, made.number = &made, key, uint32(len(a.habits))
		a.habits[key] = h
	}
	a.did = append(a.did, h.number)
}

// Result returns the lessons of all runs so far, errors first, then habits with the strongest evidence first.
func (a *Analysis) Result() Result {
	result := a.result
	result.ToolErrors, result.Known = a.errors.Len(), a.errors.Known()
	for _, l := range a.errors.Lessons() {
		result.Lessons = append(result.Lessons, Lesson{Key: l.Key, Section: l.Section, Content: l.Content, Evidence: describeErrors(l.Evidence), Executions: examplesOf(l.Evidence), Errors: l.Evidence})
	}
	habits := slices.SortedFunc(maps.Values(a.habits), func(x, y *habit) int { return cmp.Compare(x.key, y.key) })
	result.Contrasts = a.compare(habits)
	for i := range result.Contrasts.Shown {
		if l, ok := lessonOf(&result.Contrasts.Shown[i], habits); ok {
			l.Executions, l.Opposite = a.examplesOfHabit(a.habits[l.Key], l.Habit.Helps)
			result.Lessons = append(result.Lessons, l)
		}
	}
	result.Contrasts.Shown = nil
	return result
}

// compare compares the runs of each task. Habits have their index as number.
func (a *Analysis) compare(habits []*habit) contrast.Result {
	bySituation := map[uint32][]contrast.ID{}
	asked := map[uint32][]contrast.ID{}       // habits that a shown text asks for
	index := make([]contrast.ID, len(habits)) // by habit.number
	for i, h := range habits {
		index[h.number] = contrast.ID(i)
		situation := a.situations.number(h.situation)
		bySituation[situation] = append(bySituation[situation], contrast.ID(i))
	}
	for content, n := range a.texts.numbers {
		for i, h := range habits {
			if mentions(content, h.about) {
				asked[n] = append(asked[n], contrast.ID(i))
			}
		}
	}
	outcomes := map[[2]uint32][2]bool{} // whether runs of a task and an agent failed, and succeeded
	for i := range a.runs {
		r := &a.runs[i]
		seen := outcomes[[2]uint32{r.task, r.agent}]
		seen[toInt(r.success)] = true
		outcomes[[2]uint32{r.task, r.agent}] = seen
	}
	data := contrast.New(contrast.Config{})
	var could, did []contrast.ID // reused: Add keeps no reference
	for i := range a.runs {
		r := &a.runs[i]
		could, did = could[:0], did[:0]
		run := contrast.Run{Task: fmt.Sprint(r.task), Agent: fmt.Sprint(r.agent), Success: r.success}
		if outcomes[[2]uint32{r.task, r.agent}] == [2]bool{true, true} { // other runs cannot show a contrast
			for s := range r.situations.All() {
				could = append(could, bySituation[s]...)
			}
			for h := range r.habits.All() {
				did = append(did, index[h])
			}
			run.Could, run.Did = could, did
			for n := range r.shown.All() { // a run that follows advice cannot confirm it
				isAsked := func(id contrast.ID) bool { return slices.Contains(asked[n], id) }
				run.Could, run.Did = slices.DeleteFunc(run.Could, isAsked), slices.DeleteFunc(run.Did, isAsked)
			}
		}
		data.Add(run)
	}
	return data.Result()
}

// examplesOf returns the examples of all errors of a lesson, each once.
func examplesOf(all []remedy.Evidence) (ids []events.ID) {
	for i := range all {
		for _, id := range all[i].Examples {
			if len(ids) < maxExamples && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// examplesOfHabit returns the first runs with a habit and an outcome. The first one has an opposite, a run of the same task and agent
// that could follow the habit, did not, and ended differently, if there is one.
func (a *Analysis) examplesOfHabit(h *habit, success bool) (ids []events.ID, opposite events.ID) {
	situation := a.situations.number(h.situation)
	opposites := map[[2]uint32]events.ID{} // by task and agent
	for i := range a.runs {
		r := &a.runs[i]
		if of := [2]uint32{r.task, r.agent}; opposites[of] == "" && r.success != success && r.situations.Contains(situation) && !r.habits.Contains(h.number) {
			opposites[of] = r.id
		}
	}
	for i := range a.runs {
		r := &a.runs[i]
		if r.success != success || !r.habits.Contains(h.number) {
			continue
		}
		if found := opposites[[2]uint32{r.task, r.agent}]; opposite == "" && found != "" {
			opposite = found
			ids = slices.Insert(ids[:min(len(ids), maxExamples-1)], 0, r.id)
		} else if len(ids) < maxExamples {
			ids = append(ids, r.id)
		}
	}
	return ids, opposite
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lessonOf returns the lesson of a contrast. Of several habits that the runs cannot tell apart it takes the shortest advice.
func lessonOf(c *contrast.Contrast, habits []*habit) (Lesson, bool) {
	var best Lesson
	for _, id := range c.IDs {
		h := habits[id]
		content := h.advice
		if !c.Helps {
			content = h.avoid
		}
		if content != "" && (best.Content == "" || len(content) < len(best.Content)) {
			best = Lesson{Key: h.key, Section: h.section, Content: content, Habit: c}
		}
	}
	best.Evidence = describeContrast(c)
	return best, best.Content != "" && remedy.NamesOnly(best.Content)
}

// table numbers texts from zero.
type table struct{ numbers map[string]uint32 }

func (t *table) number(s string) uint32 {
	n, known := t.numbers[s]
	if !known {
		if t.numbers == nil {
			t.numbers = map[string]uint32{}
		}
		n = uint32(len(t.numbers))
		t.numbers[strings.Clone(s)] = n
	}
	return n
}

func (t *table) has(s string) bool {
	_, known := t.numbers[s]
	return known
}

func (t *table) size() int { return len(t.numbers) }

// mentions reports whether a text contains a name as a word.
func mentions(content, name string) bool {
	isPart := func(s string, at int) bool {
		return at >= 0 && at < len(s) && (s[at] == '_' || s[at] == '-' || s[at] >= '0' && s[at] <= '9' || s[at] >= 'A' && s[at] <= 'Z' || s[at] >= 'a' && s[at] <= 'z')
	}
	for from := 0; name != ""; {
		at := strings.Index(content[from:], name)
		if at < 0 {
			return false
		}
		at += from
		if !isPart(content, at-1) && !isPart(content, at+len(name)) {
			return true
		}
		from = at + 1
	}
	return false
}
