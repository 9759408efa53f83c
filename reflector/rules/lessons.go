package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// Section is the section of the playbook for lessons about errors.
const Section = "troubleshooting_and_pitfalls"

// MaxContent is the maximum length of Lesson.Content in bytes.
const MaxContent = 400

const (
	minTasks = 2 // in which a remedy must have worked
	minRuns  = 3 // in which a remedy must have worked if other things changed with it and the error does not explain it
	minPairs = 3 // pairs of calls that both worked, for a comparison with them
)

// ErrorEvidence counts the runs that support a lesson about an error.
type ErrorEvidence struct {
	Error  string `json:"error"` // the part that a lesson may quote; "" if it may quote nothing
	Remedy string `json:"remedy"`
	Tasks  int    `json:"tasks"`  // in which the remedy was followed by a working call, at most 16
	Runs   int    `json:"runs"`   // with the error
	Worked int    `json:"worked"` // runs in which the remedy was followed by a working call
	Failed int    `json:"failed"` // runs in which the same call failed with the same error after the remedy
	// Repeated counts the runs in which another attempt had the same error.
	Repeated int `json:"repeated"`
}

func (e *ErrorEvidence) String() string {
	return fmt.Sprintf("%q in %s: the call then worked in %d (%s) and failed again in %d", e.Error, count(e.Runs, "run"), e.Worked, CountTasks(e.Tasks), e.Failed)
}

// Lessons returns the lessons that the evidence supports, sorted by tool and error.
func (x *Errors) Lessons() []Lesson {
	errorsOf := map[string]int{} // by tool
	for key := range x.failures {
		errorsOf[key.name]++
	}
	var lessons []Lesson
	for _, f := range x.sorted() {
		t := x.remedyOf(f)
		if t == nil || !isName(f.tool) {
			continue
		}
		line := quotable(f.text, f.names)
		if line == "" && errorsOf[f.tool] > 1 {
			continue // without a quotation, a lesson would be about all errors of the tool
		}
		l := errorLesson(f, t, line)
		if !slices.ContainsFunc(lessons, func(k Lesson) bool { return k.Content == l.Content }) {
			lessons = append(lessons, l)
		}
	}
	return lessons
}

func errorLesson(f *failure, t *tally, line string) Lesson {
	e := &ErrorEvidence{
		Error: line, Remedy: t.advice, Tasks: len(t.tasks),
		Runs: f.runs, Worked: t.runs.worked, Failed: t.runs.again, Repeated: f.repeated,
	}
	return Lesson{
		Section: Section, Content: text.Prefix(sentence(f, t, line), MaxContent),
		Evidence: e.String(), Executions: slices.Clone(t.examples), Error: e,
	}
}

// sentence returns the content of a lesson.
func sentence(f *failure, t *tally, line string) string {
	tool := "`" + f.tool + "`"
	condition := "If " + tool + " fails, "
	if line != "" {
		condition = fmt.Sprintf("If %s answers \"%s\", ", tool, line)
	}
	readsFirst := t.rank == rankSame && t.reads && !t.findsFile // reading does no harm, so it is advised before each call
	switch {
	case readsFirst && line != "":
		return fmt.Sprintf("Before %s, call `%s` with the same `%s`. Otherwise %s can answer \"%s\".", tool, t.call, t.shared, tool, line)
	case t.call != "":
		return condition + t.advice + ", then call " + tool + " again."
	case t.rank == rankRetry:
		return condition + t.advice + ". It worked the next time."
	}
	return condition + t.advice + "."
}

// remedyOf returns the remedy of an error, or nil. Of the remedies that worked in nearly as many runs as the best one, it returns the most
// specific one.
func (x *Errors) remedyOf(f *failure) *tally {
	var found []*tally
	best := 0
	for _, t := range f.changes {
		if t.rank != rankTrivial && x.isRemedy(f, t) {
			found = append(found, t)
			best = max(best, t.runs.worked)
		}
	}
	found = slices.DeleteFunc(found, func(t *tally) bool { return 5*t.runs.worked < 4*best }) // in less than 80 % of its runs
	if len(found) == 0 {
		return nil
	}
	first := slices.MinFunc(found, bySpecificity)
	if i := slices.IndexFunc(found, func(t *tally) bool { return t.rank == rankValue && t.general == first.advice }); i >= 0 {
		return found[i] // "set x to y" says more than "give x"
	}
	return first
}

func bySpecificity(a, b *tally) int {
	special := func(t *tally) int { return min(len(t.general), 1) } // 1 for a special case of another change, else 0
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.runs.worked, a.runs.worked), cmp.Compare(special(b), special(a)), strings.Compare(a.advice, b.advice))
}

// isRemedy reports whether a change made the call work. After the change, the call must have worked in two tasks, in most runs with the
// error, at least twice as often as it failed, and no less often than without the change. This is enough if the error explains the change.
// Otherwise at least half of the attempts without the change must have failed, few runs count only if nothing else changed in them, and a
// call in between counts only if it is not usual, see isUsual.
func (x *Errors) isRemedy(f *failure, t *tally) bool {
	without := attempts{f.pairs.worked - t.pairs.worked, f.pairs.again - t.pairs.again}
	switch {
	case len(t.tasks) < minTasks, 2*t.runs.worked <= f.runs, t.pairs.worked < 2*t.pairs.again:
		return false
	case t.pairs.worked*without.again < without.worked*t.pairs.again:
		return false // the share of working calls is larger without the change
	case t.rank == rankValue && t.named < t.pairs.worked && !t.forObjects():
		return false // the value may belong to one object
	case t.explained(f):
		return true
	case without.worked > without.again:
		return false
	case t.runs.worked < minRuns && t.alone < t.pairs.worked:
		return false
	case t.rank == rankForm || t.rank == rankValue:
		general := f.changes[t.general] // a new value is a cause only if it is always the same
		return general == nil || general.runs.worked <= t.runs.worked
	}
	return t.call == "" || !x.isUsual(f, t)
}

// explained reports whether the error, or the form of the remedy, shows that the call worked because of the remedy. Counts alone prove less:
// agents that know a rule follow it also without the error.
func (t *tally) explained(f *failure) bool {
	switch t.rank {
	case rankHow, rankInstall, rankRetry:
		return true
	case rankValue, rankSet:
		return t.named > 0 && t.named == t.pairs.worked
	}
	return t.call != "" && (t.findsFile || mentionsTool(f.text, t.call))
}

// isUsual reports whether the call t.call stands between two working calls of the tool about as often as between an error and a working call:
// its share of the former pairs is more than half of its share of the latter. The former share is computed with one more pair that has the
// call, so that few pairs prove nothing.
func (x *Errors) isUsual(f *failure, t *tally) bool {
	u := x.usual[f.tool]
	return u != nil && u.pairs >= minPairs && 2*(u.between[t.call]+1)*f.pairs.worked > t.pairs.worked*(u.pairs+1)
}

// mentionsTool reports whether the text of an error contains the words of a tool's name, or of its operation.
func mentionsTool(text, tool string) bool {
	words := nameWords(text)
	_, operation, _ := strings.Cut(tool, " ")
	return slices.ContainsFunc([]string{baseTool(tool), operation}, func(name string) bool {
		list := slices.DeleteFunc(nameWords(name), func(w string) bool { return len(w) < 3 || w == "get" || w == "run" })
		return len(list) > 0 && !slices.ContainsFunc(list, func(w string) bool { return !slices.Contains(words, w) })
	})
}
