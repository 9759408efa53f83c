package rules

import (
	"fmt"
	"slices"
)

// Explain describes the result of the comparison in sentences. If it shows nothing, they say why, and which runs would help.
func (r *Result) Explain() string {
	teaches := slices.ContainsFunc(r.Lessons, func(l Lesson) bool { return l.Error != nil })
	if r.ToolErrors == 0 || teaches {
		return r.explainHabits()
	}
	return fmt.Sprintf("%s of tools, but no change that made the call work in most runs with the error, and in two tasks at least. %s",
		count(r.ToolErrors, "error"), r.explainHabits())
}

func (r *Result) explainHabits() string {
	c, habits := &r.Contrasts, 0
	for i := range r.Lessons {
		if r.Lessons[i].Habit != nil {
			habits++
		}
	}
	base := fmt.Sprintf("%s in %s with successful and failed runs", count(c.Runs, "run"), count(c.Strata, "task")) // a stratum: one agent at one task
	switch {
	case r.Compared == 0:
		return "No run has both an outcome and a tool call, so habits of successful and failed runs cannot be compared."
	case c.Strata == 0:
		return "No task has successful and failed runs of one agent, so their habits cannot be compared: repeat tasks."
	case habits == 1:
		return fmt.Sprintf("1 habit separates success from failure, of %d compared in %s.", c.Candidates, base)
	case habits > 1:
		return fmt.Sprintf("%d habits separate success from failure, of %d compared in %s.", habits, c.Candidates, base)
	}
	advice := ""
	if c.RunsNeeded > c.Runs {
		advice = fmt.Sprintf(" About %d runs of such tasks would show a difference of 40 points.", c.RunsNeeded)
	}
	return fmt.Sprintf("These runs show no habit that separates success from failure: %s compared in %s, none beyond chance.%s",
		count(c.Candidates, "habit"), base, advice)
}

// CountTasks returns the number of distinct tasks of an error in words. It is counted up to a limit.
func CountTasks(n int) string {
	if n == maxTasks {
		return fmt.Sprintf("at least %d tasks", n)
	}
	return count(n, "task")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
