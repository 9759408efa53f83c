package drift

import (
	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/roles"
)

// Analyse implements roles.Language. It compares the answer with the queue or the priority in the feedback. One example
// does not determine the condition of a rule, so the model guesses it unless the feedback contains the reason.
func (w *World) Analyse(e *prompt.Execution, d roles.Dice) roles.Analysis {
	t := w.read(e.Question)
	said := e.Feedback + "\n" + e.Target
	got, want := readAnswer(e.Answer), readAnswer(said)
	output, value := "", ""
	for i, o := range []string{toQueue, toPriority} {
		if want[i] != "" && want[i] != got[i] && (output == "" || d.Chance(0.3, "second error")) {
			output, value = o, want[i]
		}
	}
	if output == "" {
		return roles.Analysis{Reasoning: "The material does not name the right queue or priority."}
	}
	a := roles.Analysis{
		Error:    "The " + output + " is wrong.",
		Approach: "The " + output + " " + value + " was expected.",
	}
	r := rule{output: output, value: value}
	at := w.cited(e, output, t)
	if at >= 0 {
		a.Blamed = append(a.Blamed, e.Shown[at].ID)
	}
	reason := readCondition(e.Feedback)
	switch {
	case reason != (ticket{}) && (output == toQueue || want[0] == "" || want[0] == got[0]):
		a.Reasoning, r.when = "The feedback contains the reason.", reason
	case at >= 0:
		old, _ := w.readRule(e.Shown[at].Text)
		r.when = old.when
		if better, ok := w.supporter(e, &r, t); ok {
			// Another bullet was right, so it must win where both apply.
			a.Reasoning = "Two bullets apply, and the other one was right."
			for f, v := range better.when {
				if v != "" {
					r.when[f] = v
				}
			}
			break
		}
		a.Reasoning = "A bullet said otherwise, and the feedback contradicts it."
		if main := mainFeature(output); r.when[main] == "" {
			r.when[main] = t[main] // a bullet without the main feature is doubtful
		} else if d.Chance(exceptionRate, "exception") { // the bullet may hold in general
			w.narrow(&r.when, t, d)
		}
	default:
		a.Reasoning, r.when = "No bullet decided the "+output+".", guess(output, t, d)
	}
	a.Insight = r
	return a
}

// cited returns the cited bullet that decided an output, as an index into Shown, or -1.
func (w *World) cited(e *prompt.Execution, output string, t ticket) int {
	var rules []rule
	var index []int
	for i, b := range e.Shown {
		if r, ok := w.readRule(b.Text); ok && b.Cited && r.output == output {
			rules, index = append(rules, r), append(index, i)
		}
	}
	at, _ := decide(rules, output, t)
	if at < 0 {
		return -1
	}
	return index[at]
}

// supporter returns the shown bullet with the most features that applies to the ticket and has the wanted value.
func (w *World) supporter(e *prompt.Execution, want *rule, t ticket) (best rule, found bool) {
	for _, b := range e.Shown {
		r, ok := w.readRule(b.Text)
		if ok && r.output == want.output && r.value == want.value && r.applies(t) && (!found || r.features() > best.features()) {
			best, found = r, true
		}
	}
	return best, found
}

// exceptionRate is the share of contradicted bullets that the model takes for right in general. It cannot know.
const exceptionRate = 0.5

// suspicion is how plausible a feature seems as the cause of an exception.
var suspicion = [featureCount]uint64{topic: 6, product: 5, plan: 4, language: 2, impact: 1}

// narrow adds one more feature of the ticket to a condition, if there is one.
func (w *World) narrow(when *ticket, t ticket, d roles.Dice) {
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

// mainFeature returns the feature that decides an output most often. This is common sense: topics lead to queues and
// impacts to priorities.
func mainFeature(output string) feature {
	if output == toPriority {
		return impact
	}
	return topic
}

// guess returns the condition that seems most plausible.
func guess(output string, t ticket, d roles.Dice) ticket {
	var when ticket
	main := mainFeature(output)
	when[main] = t[main]
	switch n := d.Draw("guess") % 100; {
	case n < 72:
	case n < 82:
		when[product] = t[product]
	case n < 90:
		when[plan] = t[plan]
	case n < 95:
		when[language] = t[language]
	default:
		other := topic + impact - main
		when[other] = t[other]
	}
	return when
}

// Generalise implements roles.Language. The rule lacks a feature that matters, or has one that does not.
func (w *World) Generalise(of roles.Rule, e *prompt.Execution, d roles.Dice) roles.Rule {
	r, ok := of.(rule)
	if !ok {
		return of
	}
	t := w.read(e.Question)
	main := mainFeature(r.output)
	var named []feature // without the main feature
	for f, v := range r.when {
		if v != "" && feature(f) != main {
			named = append(named, feature(f))
		}
	}
	kept := r.when
	if r.when[main] != "" && d.Chance(0.15, "without the main feature") {
		w.narrow(&r.when, t, d)
		if r.when != kept {
			r.when[main] = ""
		}
		return r
	}
	if len(named) == 0 {
		w.narrow(&r.when, t, d)
		return r
	}
	f := named[d.Draw("which feature")%uint64(len(named))]
	if r.features() > 1 && d.Chance(0.5, "too general") {
		r.when[f] = ""
		return r
	}
	w.narrow(&r.when, t, d)
	if r.when != kept {
		r.when[f] = ""
	}
	return r
}
