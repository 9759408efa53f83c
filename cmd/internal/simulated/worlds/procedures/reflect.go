package procedures

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Language is the knowledge of a model about orders. It has no hidden rule.
type Language struct {
	forgetful bool // lessons leave out the kind of job
}

// Read implements world.Language.
func (l Language) Read(text string) (world.Rule, bool) {
	r, ok := readRule(text)
	return l.said(r), ok
}

// said returns a rule as the model words it.
func (l Language) said(r rule) world.Rule {
	if l.forgetful {
		return forgotten{r}
	}
	return r
}

// Answer implements world.Language. The model carries out every bullet that concerns the job, and cites those that apply.
func (Language) Answer(question, _, system string) world.Answer {
	j := readJob(question)
	rules, ids := readRules(world.ReadBullets(system))
	list, applied := carryOut(&j, rules)
	out := world.Answer{BulletIDs: []string{}, FinalAnswer: strings.Join(list, ", ")}
	for _, i := range applied {
		if !slices.Contains(out.BulletIDs, ids[i]) {
			out.BulletIDs = append(out.BulletIDs, ids[i])
		}
	}
	out.Reasoning = fmt.Sprintf("%d bullets say something about this job.", len(out.BulletIDs))
	return out
}

// readRules returns the rules that bullets state, and their ids. Of bullets with the same condition the first one counts.
func readRules(bullets []world.Bullet) (rules []rule, ids []string) {
	seen := make(map[string]bool)
	for _, b := range bullets {
		r, ok := readRule(b.Text)
		if !ok || seen[r.Condition()] {
			continue
		}
		seen[r.Condition()] = true
		rules, ids = append(rules, r), append(ids, b.ID)
	}
	return rules, ids
}

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

// Platitudes implements world.Language.
func (Language) Platitudes() []string {
	return world.Platitudes(7,
		[]string{"Read the whole order", "Keep the bench tidy", "Take your time", "Look at the piece twice", "Keep the client in mind", "Avoid haste", "Work with care"},
		[]string{"before you decide.", "in every situation.", "because quality counts.", "and confirm the result.", "so that errors stay rare.", "whenever you are unsure."})
}

// Features implements world.World: the known words of a text.
func (Language) Features(text string) map[string]float64 {
	out := make(map[string]float64)
	for word := range words(text) {
		if weight := weights[word]; weight > 0 {
			out[word] = weight
		}
	}
	return out
}
