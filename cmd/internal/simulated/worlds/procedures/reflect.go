package procedures

import (
	"slices"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Analyse implements world.Language. Feedback rarely says what a rule depends on; otherwise the model guesses.
func (l Language) Analyse(e *world.Execution, d world.Dice) world.Analysis {
	j := readJob(e.Question)
	f, when, ok := readFlaw(e.Feedback)
	if !ok {
		return world.Analysis{Reasoning: "The material does not name the flaw."}
	}
	a := world.Analysis{Reasoning: "The feedback names the first flaw.", Error: e.Feedback}
	for _, b := range e.Shown {
		if r, ok := readRule(b.Text); ok && b.Cited && r.leadsTo(f) {
			a.Blamed = append(a.Blamed, b.ID)
		}
	}
	r := f.lesson(&j, d)
	if len(a.Blamed) > 0 && (f.kind == missing || f.kind == early) {
		a.Reasoning = "A bullet led to the flaw."
		return a
	}
	if when != (condition{}) {
		r.when = when
	}
	a.Insight = l.said(r)
	a.Approach = a.Insight.Text(0)
	return a
}

// leadsTo reports whether a rule that an answer follows can be the cause of a flaw.
func (r *rule) leadsTo(f flaw) bool {
	switch f.kind {
	case needless:
		return r.other == f.step && (r.kind == follow || r.kind == swap) || r.step == f.step && (r.kind == begin || r.kind == check)
	case missing:
		return r.step == f.step && (r.kind == skip || r.kind == swap)
	case instead:
		return r.other == f.step && r.kind == swap || r.step == f.other && r.kind == skip
	case early:
		return r.kind == before && r.step == f.other && r.other == f.step || r.kind == begin && r.step == f.other
	case unchecked:
		return r.kind == begin || r.kind == check && r.step != f.step
	}
	return false
}

// lesson returns the rule that a flaw suggests. What it depends on is a guess: shares are the probabilities that it is the material, and
// that it is the client.
func (f flaw) lesson(j *job, d world.Dice) rule {
	r := rule{family: j.family, step: f.step, other: f.other}
	shares := [2]float64{0.25, 0.15}
	switch f.kind {
	case unchecked:
		r.kind, shares = check, [2]float64{0.6, 0.1}
	case needless:
		r.kind, shares = skip, [2]float64{0.6, 0.3}
	case missing:
		r.kind, r.step, r.other = follow, f.other, f.step
		if f.other == "" || slices.Contains(checks, f.other) {
			r.kind, r.step, shares = begin, f.step, [2]float64{0.2, 0.6}
		}
	case instead:
		r.kind, shares = swap, [2]float64{0.5, 0.2}
	case early:
		r.kind = before
	}
	switch {
	case d.Chance(shares[0], "material"):
		r.when.material = j.material
	case d.Chance(shares[1]/(1-shares[0]), "client"):
		r.when.client = j.client
	}
	return r.withoutUnusedStep()
}

// Generalise implements world.Language. The rule depends on something else, or not at all.
func (l Language) Generalise(of world.Rule, e *world.Execution, d world.Dice) world.Rule {
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
