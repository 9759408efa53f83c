package procedures

import (
	"slices"

	"debrief/cmd/internal/simulated/worlds"
)

// Analyse implements worlds.Language. It blames the cited bullets whose rule can be the cause of the flaw, and derives a rule from the flaw.
// Most feedback leaves out the condition of the rule: then lesson guesses it.
func (l Language) Analyse(e *worlds.Execution, d worlds.Dice) worlds.Analysis {
	j := readJob(e.Question)
	f, when, ok := readFlaw(e.Feedback)
	if !ok {
		return worlds.Analysis{Reasoning: "The material does not name the flaw."}
	}
	a := worlds.Analysis{Reasoning: "The feedback names the first flaw.", Error: e.Feedback}
	for _, b := range e.Shown {
		if r, ok := readRule(b.Text); ok && b.Cited && r.leadsTo(f) {
			a.Blamed = append(a.Blamed, b.ID)
		}
	}
	if len(a.Blamed) > 0 && (f.kind == missing || f.kind == early) { // the blamed rule is wrong, and no rule is missing
		a.Reasoning = "A bullet led to the flaw."
		return a
	}
	r := f.lesson(&j, d)
	if when != (condition{}) {
		r.when = when
	}
	a.Insight = l.said(r)
	a.Approach = a.Insight.Text(0)
	return a
}

// leadsTo reports whether an answer that follows the rule can have the flaw.
func (r *rule) leadsTo(f flaw) bool {
	switch f.kind {
	case needless: // f.step has no place
		return r.adds(f.step)
	case missing: // f.step must come after f.other, or first
		return r.removes(f.step)
	case instead: // f.step is there in place of f.other
		return r.kind == swap && r.other == f.step || r.kind == skip && r.step == f.other
	case early: // f.other is before f.step
		return r.kind == before && r.step == f.other && r.other == f.step || r.kind == begin && r.step == f.other
	case unchecked: // the check f.step is not first
		return r.kind == begin || r.kind == check && r.step != f.step
	}
	return false
}

// adds reports whether the rule puts a step into the list.
func (r *rule) adds(step string) bool {
	switch r.kind {
	case follow, swap:
		return r.other == step
	case begin, check:
		return r.step == step
	}
	return false
}

// removes reports whether the rule takes a step out of the list.
func (r *rule) removes(step string) bool {
	return (r.kind == skip || r.kind == swap) && r.step == step
}

// dependence has the probabilities of a guess: a rule depends on the material, or on the client, or else on neither.
type dependence struct{ material, client float64 }

// lesson returns the rule that a flaw suggests. What the rule depends on is a guess.
func (f flaw) lesson(j *job, d worlds.Dice) rule {
	r := rule{family: j.family, step: f.step, other: f.other}
	guess := dependence{material: 0.25, client: 0.15}
	switch f.kind {
	case unchecked:
		r.kind, guess = check, dependence{material: 0.6, client: 0.1}
	case needless:
		r.kind, guess = skip, dependence{material: 0.6, client: 0.3}
	case missing:
		hasPlaceAtBeginning := f.other == "" || slices.Contains(checks, f.other)
		if hasPlaceAtBeginning {
			r.kind, guess = begin, dependence{material: 0.2, client: 0.6}
		} else {
			r.kind, r.step, r.other = follow, f.other, f.step
		}
	case instead:
		r.kind, guess = swap, dependence{material: 0.5, client: 0.2}
	case early:
		r.kind = before
	}
	switch {
	case d.Chance(guess.material, "material"):
		r.when.material = j.material
	case d.Chance(guess.client/(1-guess.material), "client"): // the probability given that it is not the material
		r.when.client = j.client
	}
	return r.withoutUnusedStep()
}

// Generalise implements worlds.Language. The rule depends on something else, or not at all.
func (l Language) Generalise(of worlds.Rule, e *worlds.Execution, d worlds.Dice) worlds.Rule {
	var r rule
	switch of := of.(type) {
	case rule:
		r = of
	case forgotten:
		r = of.rule
	default:
		return of
	}
	j := readJob(e.Question)
	switch {
	case r.when == condition{}:
		r.when.material = j.material
	case d.Chance(0.5, "too general"):
		r.when = condition{}
	case r.when.client == "":
		r.when = condition{client: j.client}
	default:
		r.when = condition{material: j.material}
	}
	return l.said(r)
}
