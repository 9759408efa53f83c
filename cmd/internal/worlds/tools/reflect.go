package tools

import (
	"strings"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/roles"
)

// Rates of guesses. A model that sees an error code without an explanation, or a failure without any sign, guesses a
// cause now and then.
const (
	codeGuessRate  = 0.25
	blindGuessRate = 0.05
)

// exceptionRate returns the share of contradicted bullets that the model takes for right in general. It cannot know. If the
// usual value was right, an exception is less plausible.
func exceptionRate(r *rule) float64 {
	if r.value == slots[slotIndex(r.slot)].values[0] {
		return 0.3
	}
	return 0.5
}

// material is an execution as the model reads it.
type material struct {
	op     string
	facts  facts
	values []string // of the plan, by slot
	code   string   // E412, E422 or empty
	manual string   // output of the failed call
}

func (w *World) readMaterial(e *prompt.Execution) material {
	m := material{op: w.read(e.Question).op, values: readPlan(e.Answer)}
	known := e.Question
	for _, c := range prompt.Calls(e.Trace) {
		if c.Tool == inventory {
			known += "\n" + c.Output
		}
		if c.Failed {
			m.manual = c.Output
			m.code = errorCode.FindString(c.Output)
		}
	}
	m.facts = readFacts(known)
	return m
}

// Analyse implements roles.Language. Feedback that states a rule is believed. A complaint or a line of a manual tells
// what should have been done, but not when, so the model guesses the condition.
func (w *World) Analyse(e *prompt.Execution, d roles.Dice) roles.Analysis {
	m := w.readMaterial(e)
	if m.op == "" {
		return roles.Analysis{Reasoning: "The request is not clear."}
	}
	if r, ok := w.readRule(e.Feedback); ok && r.applies(m.op, m.facts) {
		a := w.because(e, &m, r)
		a.Reasoning = "The feedback states a rule."
		return a
	}
	slotName, value, ok := readSign(e.Feedback)
	if !ok {
		slotName, value, ok = readSign(m.manual)
	}
	if !ok && (m.code != "" || e.Outcome != "unknown") {
		slotName, value, ok = m.guessCause(d)
	}
	if !ok {
		return roles.Analysis{Reasoning: "The material shows no cause."}
	}
	r := rule{op: m.op, slot: slotName, value: value}
	a := w.because(e, &m, r)
	if len(a.Blamed) == 0 {
		r.when = m.guessCondition(d)
		a.Insight = r
		return a
	}
	var old rule
	for _, b := range e.Shown {
		if b.ID == a.Blamed[0] {
			old, _ = w.readRule(b.Text)
		}
	}
	r.when = old.when
	better, found := w.supporter(e, &m, r)
	switch {
	case found: // another bullet was right, so it must win where both apply
		for f, v := range better.when {
			if v != "" {
				r.when[f] = v
			}
		}
	case old.op != "" && d.Chance(exceptionRate(&r), "exception"): // the bullet may hold in general
		m.narrow(&r.when, d)
	}
	a.Insight = r
	return a
}

// Followed implements roles.Follower: the bullets that decide a slot, if the calls have their values.
func (w *World) Followed(e *prompt.Execution) []string {
	m := w.readMaterial(e)
	var rules []rule
	var ids []string
	for _, b := range e.Shown {
		if r, ok := w.readRule(b.Text); ok {
			rules, ids = append(rules, r), append(ids, b.ID)
		}
	}
	var followed []string
	for i := range slots {
		if at := decide(rules, slots[i].name, m.op, m.facts); m.op != "" && at >= 0 && rules[at].value == m.values[i] {
			followed = append(followed, ids[at])
		}
	}
	return followed
}

// because returns an analysis with a rule as the insight. It blames the cited bullet that decided the slot otherwise.
func (w *World) because(e *prompt.Execution, m *material, r rule) roles.Analysis {
	a := roles.Analysis{
		Insight: r, Reasoning: "The result shows what was wrong, but not in which cases.",
		Error:    "The plan had the wrong " + r.slot + ".",
		Approach: "Use " + r.slot + " " + r.value + " here.",
	}
	var rules []rule
	var ids []string
	for _, b := range e.Shown {
		if old, ok := w.readRule(b.Text); ok && b.Cited {
			rules, ids = append(rules, old), append(ids, b.ID)
		}
	}
	if at := decide(rules, r.slot, m.op, m.facts); at >= 0 && rules[at].value != r.value {
		a.Blamed = append(a.Blamed, ids[at])
	}
	return a
}

// supporter returns the shown bullet with the most conditions that applies and has the wanted value.
func (w *World) supporter(e *prompt.Execution, m *material, want rule) (best rule, found bool) {
	for _, b := range e.Shown {
		r, ok := w.readRule(b.Text)
		if ok && r.slot == want.slot && r.value == want.value && r.applies(m.op, m.facts) && (!found || r.conditions() > best.conditions()) {
			best, found = r, true
		}
	}
	return best, found
}

// guessCause guesses a slot and a value that differs from the plan. An error code limits the slots.
func (m *material) guessCause(d roles.Dice) (slotName, value string, ok bool) {
	rate := blindGuessRate
	if m.code != "" {
		rate = codeGuessRate
	}
	if !d.Chance(rate, "guess") {
		return "", "", false
	}
	type cause struct{ slot, value string }
	var causes []cause
	for i := range slots {
		s := &slots[i]
		if m.code == "E412" && (!s.isGuard || s.isLast) || m.code == "E422" && s.isGuard {
			continue
		}
		for _, v := range s.values {
			if v != m.values[i] {
				causes = append(causes, cause{s.name, v})
			}
		}
	}
	if len(causes) == 0 {
		return "", "", false
	}
	c := causes[d.Draw("cause")%uint64(len(causes))]
	return c.slot, c.value, true
}

// guessCondition guesses the facts that matter: none, one or two.
func (m *material) guessCondition(d roles.Dice) facts {
	var when facts
	n := d.Draw("facts") % 20
	if n >= 7 {
		m.narrow(&when, d)
	}
	if n == 19 {
		m.narrow(&when, d)
	}
	return when
}

// narrow adds one more fact to a condition, if there is one.
func (m *material) narrow(when *facts, d roles.Dice) {
	var free []int
	for f, v := range when {
		if v == "" && m.facts[f] != "" {
			free = append(free, f)
		}
	}
	if len(free) > 0 {
		f := free[d.Draw(strings.Join(append([]string{"narrow"}, when[:]...), "|"))%uint64(len(free))]
		when[f] = m.facts[f]
	}
}

// Generalise implements roles.Language. The rule lacks a condition that matters, or has one that does not.
func (w *World) Generalise(of roles.Rule, e *prompt.Execution, d roles.Dice) roles.Rule {
	r, ok := of.(rule)
	if !ok {
		return of
	}
	m := w.readMaterial(e)
	var named []int
	for f, v := range r.when {
		if v != "" {
			named = append(named, f)
		}
	}
	switch {
	case d.Chance(0.1, "any operation"):
		r.op = ""
	case len(named) == 0:
		m.narrow(&r.when, d)
	default:
		f := named[d.Draw("which fact")%uint64(len(named))]
		if d.Chance(0.5, "other fact") {
			m.narrow(&r.when, d)
		}
		r.when[f] = ""
	}
	return r
}
