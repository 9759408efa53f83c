package tools

import (
	"regexp"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Rates of guesses. A model that sees an error code without an explanation, or a failure without any sign, guesses a
// cause now and then.
const (
	codeGuessRate  = 0.25
	blindGuessRate = 0.05
)

// exceptionRate returns the share of contradicted bullets that the model takes for right in general. It has to guess, because one
// example does not show whether a bullet is wrong or the case is an exception. If the usual value was right, an exception is less plausible.
func exceptionRate(r worlds.Case) float64 {
	if r.Value == slots[slotIndex(r.Slot)].values[0] {
		return 0.3
	}
	return 0.5
}

// material is an execution as the model reads it.
type material struct {
	facts  facts
	shown  worlds.Advice
	values []string // of the plan, by slot
	code   string   // of the failed call: E412 for a guard, E422 for an argument; empty without one
	output string   // of the failed call; may have a line of the manual
}

// errorCode matches the code of a failed call.
var errorCode = regexp.MustCompile(`\bE4\d\d\b`)

func readMaterial(e *worlds.Execution) material {
	m := material{values: readPlan(e.Answer), shown: worlds.ReadAdvice(e.Shown, readCase)}
	known := e.Question
	for _, c := range worlds.ReadCalls(e.Trace) {
		if c.Tool == inventory {
			known += "\n" + c.Output
		}
		if c.Failed {
			m.output = c.Output
			m.code = errorCode.FindString(c.Output)
		}
	}
	m.facts = readFacts(known)
	m.facts[operation] = readRequest(e.Question).op
	return m
}

// Analyse implements worlds.Language. It gets no successful execution. Feedback that states a rule is believed. A sign, which is a
// complaint or a line of a manual, tells what should have been done, but not when, so the model guesses the condition.
func (Language) Analyse(e *worlds.Execution, d worlds.Dice) worlds.Analysis {
	m := readMaterial(e)
	if m.facts[operation] == "" {
		return worlds.Analysis{Reasoning: "The request is not clear."}
	}
	if r, ok := readCase(e.Feedback); ok && r.Applies(m.facts) {
		a, _ := m.because(r)
		a.Reasoning = "The feedback states a rule."
		return a
	}
	r, ok := readSign(e.Feedback)
	if !ok {
		r, ok = readSign(m.output)
	}
	hasFailed := m.code != "" || e.Outcome != "unknown"
	if !ok && hasFailed {
		r, ok = m.guessCause(d)
	}
	if !ok {
		return worlds.Analysis{Reasoning: "The material shows no cause."}
	}
	r.When[operation] = m.facts[operation]
	a, old := m.because(r)
	if len(a.Blamed) == 0 {
		m.guessCondition(&r.When, d)
		a.Insight = rule{r}
		return a
	}
	r.When = r.When.With(old.When)
	if better, ok := m.shown.Supporter(r.Slot, r.Value, m.facts); ok {
		r.When = r.When.With(better.When) // another bullet was right, so it must win where both apply
	} else if old.When[operation] != "" && d.Chance(exceptionRate(r), "exception") {
		m.narrow(&r.When, d) // the bullet may hold in general, and this request be an exception
	}
	a.Insight = rule{r}
	return a
}

// Followed implements worlds.Follower: the bullets that decide a slot, if the calls have their values.
func (Language) Followed(e *worlds.Execution) []string {
	m := readMaterial(e)
	if m.facts[operation] == "" {
		return nil
	}
	var followed []string
	for i := range slots {
		c, id := m.shown.Decide(slots[i].name, m.facts)
		if id != "" && c.Value == m.values[i] {
			followed = append(followed, id)
		}
	}
	return followed
}

// because returns an analysis with a rule as the insight. If a cited bullet decided the slot otherwise, the analysis blames it, and
// old is its rule.
func (m *material) because(r worlds.Case) (a worlds.Analysis, old worlds.Case) {
	a = worlds.Analysis{
		Insight: rule{r}, Reasoning: "The result shows what was wrong, but not in which cases.",
		Error:    "The plan had the wrong " + r.Slot + ".",
		Approach: "Use " + r.Slot + " " + r.Value + " here.",
	}
	old, id := m.shown.Cited().Decide(r.Slot, m.facts)
	if id != "" && old.Value != r.Value {
		a.Blamed = append(a.Blamed, id)
	}
	return a, old
}

// guessCause guesses a slot and a value that differs from the plan, as a case without a condition. An error code limits the slots.
func (m *material) guessCause(d worlds.Dice) (worlds.Case, bool) {
	rate := blindGuessRate
	if m.code != "" {
		rate = codeGuessRate
	}
	if !d.Chance(rate, "guess") {
		return worlds.Case{}, false
	}
	var causes []worlds.Case
	for i := range slots {
		s := &slots[i]
		isBlocking := s.isGuard && !s.isAfter // its absence can make the operation fail
		if m.code == "E412" && !isBlocking || m.code == "E422" && s.isGuard {
			continue
		}
		for _, v := range s.values {
			if v != m.values[i] {
				causes = append(causes, worlds.Case{Slot: s.name, Value: v})
			}
		}
	}
	if len(causes) == 0 {
		return worlds.Case{}, false
	}
	return causes[d.Draw("cause")%uint64(len(causes))], true
}

// guessCondition guesses the facts that matter: none in 7 of 20 cases, one in 12 of 20, two in 1 of 20.
func (m *material) guessCondition(when *facts, d worlds.Dice) {
	n := d.Draw("facts") % 20
	if n >= 7 {
		m.narrow(when, d)
	}
	if n == 19 {
		m.narrow(when, d)
	}
}

// narrow adds one more fact to a condition, if there is one.
func (m *material) narrow(when *facts, d worlds.Dice) {
	var free []int
	for f, v := range when {
		if fact(f) != operation && v == "" && m.facts[f] != "" {
			free = append(free, f)
		}
	}
	if len(free) > 0 {
		f := free[d.Draw(strings.Join(append([]string{"narrow"}, when[:]...), "|"))%uint64(len(free))]
		when[f] = m.facts[f]
	}
}

// Generalise implements worlds.Language. The rule lacks a condition that matters, or has one that does not.
func (Language) Generalise(of worlds.Rule, e *worlds.Execution, d worlds.Dice) worlds.Rule {
	r, ok := of.(rule)
	if !ok {
		return of
	}
	m := readMaterial(e)
	var named []int
	for f, v := range r.When {
		if fact(f) != operation && v != "" {
			named = append(named, f)
		}
	}
	switch {
	case d.Chance(0.1, "any operation"):
		r.When[operation] = ""
	case len(named) == 0:
		m.narrow(&r.When, d)
	default:
		f := named[d.Draw("which fact")%uint64(len(named))]
		if d.Chance(0.5, "other fact") {
			m.narrow(&r.When, d)
		}
		r.When[f] = ""
	}
	return r
}
