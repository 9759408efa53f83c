package notes

import (
	"fmt"
	"slices"

	"debrief/cmd/internal/worlds/prompt"
)

// reflect analyses one execution. The feedback on a wrong answer names the right account. The condition of the rule is in
// the feedback for some notes; else the model guesses it.
func (m *model) reflect(s *source, e prompt.Execution) prompt.Reflection {
	out := prompt.Reflection{BulletTags: []prompt.Tag{}}
	right := e.Outcome == "success"
	out.BulletTags = m.tag(s, &e, right)
	if right {
		out.Reasoning = "The answer is right."
		return out
	}
	account := m.rightAccount(&e)
	if account == "" {
		out.Reasoning = "The feedback names no account, so no rule can be derived."
		return out
	}
	out.ErrorIdentification = "The account is wrong."
	out.CorrectApproach = "Use account " + account + " for this note."
	if s.chance(m.e.Idle, "idle") {
		out.Reasoning = "The cause is not clear."
		return out
	}
	if s.chance(m.e.Platitude, "platitude") {
		out.Reasoning = "The note was not read with care."
		out.KeyInsight, out.Section = pick(s, platitudes, "which platitude"), "general"
		return out
	}
	r := m.derive(s, &e, account)
	if len(r.concepts) == 0 {
		out.Reasoning = "The note has no feature that could decide."
		return out
	}
	p := phrasing{s: s, varying: s.chance(m.e.Paraphrase, "paraphrase"), casual: s.chance(0.3, "casual")}
	out.KeyInsight = p.state(&r, sentences)
	out.Section = sectionOf(&r)
	out.Reasoning = fmt.Sprintf("The note names %v; these matter: %v.", language().readNote(e.Question).concepts, r.concepts)
	out.RootCauseAnalysis = "The rule was not known or too general."
	return out
}

// tag votes on the cited bullets.
func (m *model) tag(s *source, e *prompt.Execution, right bool) []prompt.Tag {
	tags := []prompt.Tag{}
	if e.Outcome == "unknown" {
		return tags
	}
	for _, b := range e.Shown {
		if !b.Cited {
			continue
		}
		vote := "helpful"
		if right == s.chance(m.e.WrongTag, "wrong tag "+b.ID) {
			vote = "harmful"
		}
		tags = append(tags, prompt.Tag{ID: b.ID, Tag: vote})
	}
	if s.chance(m.e.UnknownID, "unknown id") {
		tags = append(tags, prompt.Tag{ID: "rule-99999", Tag: "helpful"})
	}
	return tags
}

// rightAccount returns the first account in the feedback, else in the expected answer, that differs from the given answer.
func (m *model) rightAccount(e *prompt.Execution) string {
	for _, text := range []string{e.Feedback, e.Target} {
		for _, a := range number.FindAllString(money.ReplaceAllString(text, ","), -1) {
			if a != e.Answer {
				return a
			}
		}
	}
	return ""
}

// derive returns a rule that gives the right account for the note.
func (m *model) derive(s *source, e *prompt.Execution, account string) rule {
	v := language()
	note := v.readNote(e.Question)
	if s.chance(m.e.WrongGeneralisation, "wrong generalisation") {
		return m.blameDetail(s, &note, account)
	}
	if r, ok := v.readRule(e.Feedback); ok && r.fits(&note) {
		r.account = account
		return r
	}
	shown := make([]statement, len(e.Shown))
	for i, b := range e.Shown {
		shown[i] = m.read(b.ID, b.Text)
	}
	i := best(shown, &note)
	if i < 0 {
		return firstRule(s, &note, account)
	}
	wrong := shown[i].rule
	// Another bullet gives the right account, so the applied bullet is wrong and not too general.
	isStated := slices.ContainsFunc(shown, func(o statement) bool { return o.hasRule && o.rule.account == account && o.rule.fits(&note) })
	extra := unexplained(&note, &wrong)
	corrected := wrong
	corrected.account = account
	if isStated || len(extra) == 0 || s.chance(0.25, "correct") {
		return corrected
	}
	// The bullet is too general: a feature that it does not name makes the difference.
	c := pick(s, extra, "feature")
	if c == byAmount {
		corrected.over = roundAmount(note.amount)
		return corrected
	}
	corrected.concepts = append(slices.Clone(wrong.concepts), c)
	slices.Sort(corrected.concepts)
	return corrected
}

// byAmount stands for the amount in a list of features.
const byAmount = "(amount)"

// firstRule returns a rule for a note that no shown bullet covers: most often about the kind, else narrower or about another
// feature.
func firstRule(s *source, note *meaning, account string) rule {
	r := rule{account: account}
	var kinds, others []string
	for _, id := range note.concepts {
		switch language().concepts[id].class {
		case kind:
			kinds = append(kinds, id)
		case condition, name:
			others = append(others, id)
		}
	}
	u := s.number(100, "first rule")
	switch {
	case len(kinds) == 0 && len(others) > 0:
		// A name says more about a note without a kind than a circumstance.
		r.concepts = []string{pick(s, preferNames(others), "feature")}
	case len(kinds) == 0:
		r.concepts = slices.Clone(note.concepts[:min(1, len(note.concepts))])
	case len(others) == 0 || u < 70:
		r.concepts = kinds[:1]
	case u < 88:
		r.concepts = []string{kinds[0], pick(s, others, "feature")}
	default:
		r.concepts = []string{pick(s, others, "feature")}
	}
	slices.Sort(r.concepts)
	return r
}

func preferNames(ids []string) []string {
	var names []string
	for _, id := range ids {
		if language().concepts[id].class == name {
			names = append(names, id)
		}
	}
	if len(names) > 0 {
		return names
	}
	return ids
}

// unexplained returns the salient features of the note that the rule does not name. Circumstances and names count three
// times, because they look more important than an amount.
func unexplained(note *meaning, r *rule) []string {
	var out []string
	for _, id := range note.concepts {
		c := language().concepts[id]
		if c.class != detail && !slices.Contains(r.concepts, id) {
			out = append(out, id, id, id)
		}
	}
	if r.over == 0 && roundAmount(note.amount) > 0 {
		out = append(out, byAmount)
	}
	return out
}

// roundAmount returns the largest round amount below an amount, both in cents, or 0.
func roundAmount(c int) int {
	found := 0
	for _, t := range []int{5000, 10000, 15000, 20000, 25000, 50000, 100000} {
		if t < c {
			found = t
		}
	}
	return found
}

// blameDetail returns a wrong rule: its condition is an irrelevant detail of the note, in half of the cases together with the kind of
// expense.
func (m *model) blameDetail(s *source, note *meaning, account string) rule {
	r := rule{account: account}
	var details, kinds []string
	for _, id := range note.concepts {
		switch language().concepts[id].class {
		case detail, condition, name:
			details = append(details, id)
		case kind:
			kinds = append(kinds, id)
		}
	}
	if len(details) > 0 {
		r.concepts = append(r.concepts, pick(s, details, "blamed detail"))
	}
	if len(kinds) > 0 && (len(details) == 0 || s.chance(0.5, "with kind")) {
		r.concepts = append(r.concepts, kinds[0])
	}
	if len(details) == 0 {
		r.over = roundAmount(note.amount)
	}
	slices.Sort(r.concepts)
	return r
}

func sectionOf(r *rule) string {
	for _, id := range r.concepts {
		if c := language().concepts[id]; c.class == kind || c.class == foreign {
			return c.section
		}
	}
	return language().concepts[r.concepts[0]].section
}
