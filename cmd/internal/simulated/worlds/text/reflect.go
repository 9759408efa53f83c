package text

import (
	"slices"

	"debrief/cmd/internal/simulated/worlds"
)

// Analyse implements worlds.Language. It compares the answer with the queue or the priority in the feedback. One example
// does not determine the condition of a rule, so the model guesses it unless the feedback contains the reason.
func (Language) Analyse(e *worlds.Execution, d worlds.Dice) worlds.Analysis {
	t := readTicket(e.Question)
	want := readAnswer(e.Feedback + "\n" + e.Target)
	wrong := slices.DeleteFunc(readAnswer(e.Answer).differsIn(want), func(slot string) bool { return want[slot] == "" })
	if len(wrong) == 0 {
		return worlds.Analysis{Reasoning: "The material does not name the right queue or priority."}
	}
	slot := wrong[0]
	if len(wrong) > 1 && d.Chance(0.3, "second error") {
		slot = wrong[1]
	}
	a := worlds.Analysis{
		Error:    "The " + slot + " is wrong.",
		Approach: "The " + slot + " " + want[slot] + " was expected.",
	}
	r := worlds.Case{Slot: slot, Value: want[slot]}
	shown := worlds.ReadAdvice(e.Shown, readRule)
	old, blamed := shown.Cited().Decide(slot, t) // the rule of the cited bullet that decided the wrong slot, and its id
	if blamed != "" {
		a.Blamed = append(a.Blamed, blamed)
	}
	reason := readCondition(e.Feedback) // feedback on both slots has the reason for the first one
	switch {
	case reason != (ticket{}) && slot == wrong[0]:
		a.Reasoning, r.When = "The feedback contains the reason.", reason
	case blamed == "":
		a.Reasoning, r.When = "No bullet decided the "+slot+".", guess(slot, t, d)
	default:
		r.When = old.When
		main := mainFeature(slot)
		a.Reasoning = "A bullet said otherwise, and the feedback contradicts it."
		if better, ok := shown.Supporter(slot, r.Value, t); ok { // state the right advice for the tasks of both, where it then wins
			a.Reasoning, r.When = "Two bullets apply, and the other one was right.", r.When.With(better.When)
		} else if r.When[main] == "" { // a bullet without the main feature is doubtful
			r.When[main] = t[main]
		} else if d.Chance(exceptionRate, "exception") { // the bullet may hold in general, and this ticket be an exception
			narrow(&r.When, t, d)
		}
	}
	a.Insight = rule{r}
	return a
}

// exceptionRate is the share of contradicted bullets that the model takes for right in general. It has to guess, because one example does
// not show whether a bullet is wrong or the ticket is an exception.
const exceptionRate = 0.5

// suspicion is how plausible a feature seems as the cause of an exception.
var suspicion = [featureCount]uint64{topic: 6, product: 5, plan: 4, language: 2, impact: 1}

// narrow adds one more feature of the ticket to a condition, if there is one. The probability of a feature is its share of the
// suspicion.
func narrow(when *ticket, t ticket, d worlds.Dice) {
	total := uint64(0)
	for f, v := range when {
		if v == "" && t[f] != "" {
			total += suspicion[f]
		}
	}
	if total == 0 {
		return
	}
	n := d.Draw("narrow") % total
	for f, v := range when {
		if v != "" || t[f] == "" {
			continue
		}
		if n < suspicion[f] {
			when[f] = t[f]
			return
		}
		n -= suspicion[f]
	}
}

// mainFeature returns the feature that decides a slot most often. This is common sense: topics lead to queues and
// impacts to priorities.
func mainFeature(slot string) feature {
	if slot == toPriority {
		return impact
	}
	return topic
}

// guess returns the condition that seems most plausible.
func guess(slot string, t ticket, d worlds.Dice) ticket {
	var when ticket
	main := mainFeature(slot)
	when[main] = t[main]
	switch n := d.Draw("guess") % 100; {
	case n < 72: // the main feature alone
	case n < 82:
		when[product] = t[product]
	case n < 90:
		when[plan] = t[plan]
	case n < 95:
		when[language] = t[language]
	default:
		other := topic
		if main == topic {
			other = impact
		}
		when[other] = t[other]
	}
	return when
}

// Generalise implements worlds.Language. At random it leaves out a feature of the condition that matters, adds one that does not, or replaces
// one by another.
func (Language) Generalise(of worlds.Rule, e *worlds.Execution, d worlds.Dice) worlds.Rule {
	r, ok := of.(rule)
	if !ok {
		return of
	}
	t := readTicket(e.Question)
	main := mainFeature(r.Slot)
	var named []feature // without the main feature
	for f, v := range r.When {
		if v != "" && feature(f) != main {
			named = append(named, feature(f))
		}
	}
	if r.When[main] != "" && d.Chance(0.15, "without the main feature") {
		replace(&r.When, main, t, d)
		return r
	}
	if len(named) == 0 { // at most the main feature: add one that does not matter
		narrow(&r.When, t, d)
		return r
	}
	f := named[d.Draw("which feature")%uint64(len(named))]
	if r.Conditions() > 1 && d.Chance(0.5, "too general") { // leave out a feature that matters
		r.When[f] = ""
		return r
	}
	replace(&r.When, f, t, d)
	return r
}

// replace replaces a feature of a condition by another one of the ticket, if there is one.
func replace(when *ticket, f feature, t ticket, d worlds.Dice) {
	before := *when
	narrow(when, t, d)
	if *when != before {
		when[f] = ""
	}
}
