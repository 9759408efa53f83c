package notes

import (
	"fmt"
	"strings"

	"debrief/cmd/internal/worlds/world"
)

// statedShare is the share of notes that state their account. They are right without any rule.
const statedShare = 0.03

// reasonShare is the share of verdicts on wrong answers that explain the account.
const reasonShare = 0.3

// taskList is a growing list of different tasks.
type taskList struct {
	kind      string
	isHeldOut bool
	tasks     []world.Task
	drafts    int
	seen      map[string]bool
}

// first returns the first n tasks. The list grows as needed.
func (t *taskList) first(n int, l *ledger) []world.Task {
	if t.seen == nil {
		t.seen = make(map[string]bool)
	}
	for len(t.tasks) < n {
		t.drafts++
		s := draws(l.seed, fmt.Sprint(t.kind, " ", t.drafts))
		question, rule, ok := l.draft(s)
		// A hash of the text decides the list, so that no note is in both.
		if !ok || t.seen[question] || (world.Draw(0, "list", question)%5 == 0) != t.isHeldOut {
			continue
		}
		t.seen[question] = true
		t.tasks = append(t.tasks, world.Task{
			ID: fmt.Sprintf("%s-%05d", t.kind, len(t.tasks)+1), Question: question, Deciding: []int{rule},
		})
	}
	return t.tasks[:n:n]
}

// draft writes a note that a drawn rule decides. ok is false if another rule or no rule decides it.
func (l *ledger) draft(s *source) (question string, rule int, ok bool) {
	u := world.Uniform(s.seed, "rule", s.text)
	for rule < len(l.share)-1 && u >= l.share[rule] {
		rule++
	}
	for try := range 50 {
		s := draws(s.seed, fmt.Sprint(s.text, " try ", try))
		m := l.imagine(s, rule)
		if l.decider(&m) != rule {
			continue
		}
		if s.chance(statedShare, "stated") {
			m.stated = l.rules[rule].account
		}
		question = askBefore + noteWriter{s}.write(&m) + askAfter
		return question, rule, true
	}
	return "", rule, false
}

// imagine returns the meaning of a note for which the conditions of a rule are true, with further circumstances.
func (l *ledger) imagine(s *source, rule int) meaning {
	v := language()
	r := &l.rules[rule]
	m := meaning{concepts: append([]string(nil), r.concepts...)}
	add := func(id string) {
		if !m.has(id) {
			m.concepts = append(m.concepts, id)
		}
	}
	if r.override {
		add(pick(s, l.kinds, "kind"))
	}
	if s.chance(0.3, "circumstance") {
		add(pick(s, v.byClass[condition], "which circumstance").id)
	}
	if s.chance(0.35, "name") {
		add(pick(s, l.names, "which name"))
	}
	if s.chance(0.5, "detail") {
		add(pick(s, v.byClass[detail], "which detail").id)
	}
	if s.chance(0.15, "second detail") {
		add(pick(s, v.byClass[detail], "which second detail").id)
	}
	switch {
	case r.over > 0:
		m.amount = r.over + 1 + s.number(2*r.over, "amount")
	case s.chance(0.2, "large"):
		m.amount = 10000 + s.number(90000, "amount")
	default:
		m.amount = 300 + s.number(14000, "amount")
	}
	return m
}

// Verdict implements world.World. On a wrong answer it names the right account, and for some notes the reason.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	r := &w.ledger.rules[t.Deciding[0]]
	if strings.TrimSpace(a.Answer) == r.account {
		return world.Verdict{Right: true, Feedback: pick(draws(w.seed, t.ID), praise, "praise")}
	}
	return world.Verdict{Feedback: w.correction("verdict", t, r)}
}

// Wrong implements world.World. A right answer gets the account of another rule, a wrong answer gets praise.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	s := draws(w.seed, "wrong "+t.ID)
	if !v.Right {
		return world.Verdict{Right: true, Feedback: pick(s, praise, "praise")}
	}
	var others []string
	for _, o := range w.ledger.accounts() {
		if o != a.Answer {
			others = append(others, o)
		}
	}
	m := language().readNote(t.Question)
	r := rule{account: pick(s, others, "account")}
	if len(m.concepts) > 0 {
		r.concepts = []string{pick(s, m.concepts, "concept")}
	}
	return world.Verdict{Feedback: w.correction("wrong verdict", t, &r)}
}

var (
	praise      = []string{"Correct.", "Right.", "That is the account, thank you.", "Posted as proposed."}
	corrections = []string{"Should have been %s.", "No, %s.", "Wrong account, it goes to %s.", "Had to move it to %s."}
)

func (w *World) correction(purpose string, t world.Task, r *rule) string {
	s := draws(w.seed, purpose+" "+t.ID)
	text := fmt.Sprintf(pick(s, corrections, "correction"), r.account)
	if len(r.concepts) > 0 && s.chance(reasonShare, "reason") {
		p := phrasing{s: s, varying: true}
		text += " " + fmt.Sprintf(pick(s, reasons, "which reason"), p.conditions(r))
	}
	return text
}
