package rules

import (
	"fmt"
	"strings"

	"debrief/reflector/rules/contrast"
	"debrief/reflector/rules/remedy"
)

// describeContrast describes the evidence for a habit.
func describeContrast(c *contrast.Contrast) string {
	return fmt.Sprintf("in %s with successful and failed runs: %d of %d runs with it and %d of %d without it succeeded (p = %.2g)",
		count(c.Strata, "task"), c.DidSuccess, c.DidSuccess+c.DidFailure, c.DidNotSuccess, c.DidNotSuccess+c.DidNotFailure, c.P)
}

// describeErrors describes the evidence for a lesson about errors.
func describeErrors(all []remedy.Evidence) string {
	parts := make([]string, len(all))
	for i, e := range all {
		parts[i] = fmt.Sprintf("%q in %s: the call then worked in %d (%s) and failed again in %d", e.Error, count(e.Runs, "run"), e.Worked, count(e.Tasks, "task"), e.Failed)
	}
	return strings.Join(parts, "; ")
}

// Explain describes the result of the comparison in sentences. If it shows nothing, they say why, and which runs would help.
func (r *Result) Explain() string {
	if errors := r.explainErrors(); errors != "" {
		return errors + " " + r.explainHabits()
	}
	return r.explainHabits()
}

// explainErrors returns the reason why errors of tools teach nothing. It returns "" without errors, or if they teach something.
func (r *Result) explainErrors() string {
	for i := range r.Lessons {
		if len(r.Lessons[i].Errors) > 0 {
			return ""
		}
	}
	if r.ToolErrors == 0 {
		return ""
	}
	return fmt.Sprintf("%s of tools, but no change that made the call work in most runs with the error, and in two tasks at least.", count(r.ToolErrors, "error"))
}

func (r *Result) explainHabits() string {
	c, habits := &r.Contrasts, 0
	for i := range r.Lessons {
		if r.Lessons[i].Habit != nil {
			habits++
		}
	}
	base := fmt.Sprintf("%s in %s with successful and failed runs", count(c.InformativeRuns, "run"), count(c.InformativeTasks, "task"))
	switch {
	case r.Compared == 0:
		return "No run has both an outcome and a tool call, so habits of successful and failed runs cannot be compared."
	case c.Informative == 0:
		return "No task has successful and failed runs of one agent, so their habits cannot be compared: repeat tasks."
	case habits > 0:
		return fmt.Sprintf("%s, of %d compared in %s. With outcomes at random, %.1f would be shown on average.",
			separate(habits), c.Candidates, base, c.ShuffledMean)
	}
	advice := ""
	if c.RunsNeeded > c.InformativeRuns {
		advice = fmt.Sprintf(" About %d runs of such tasks would show a difference of 40 points.", c.RunsNeeded)
	}
	return fmt.Sprintf("These runs show no habit that separates success from failure: %s compared in %s, none beyond chance.%s",
		count(c.Candidates, "habit"), base, advice)
}

func separate(habits int) string {
	if habits == 1 {
		return "1 habit separates success from failure"
	}
	return fmt.Sprintf("%d habits separate success from failure", habits)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
