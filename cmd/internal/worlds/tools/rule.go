package tools

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// rule decides one slot of the plans for an operation. An empty operation means any. Of two rules for a slot the one with
// more conditions wins.
type rule struct {
	op    string
	when  facts
	slot  string
	value string
}

// applies reports whether the rule is about an operation with these facts.
func (r rule) applies(op string, f facts) bool {
	if r.op != "" && r.op != op {
		return false
	}
	for i, v := range r.when {
		if v != "" && v != f[i] {
			return false
		}
	}
	return true
}

// conditions counts the conditions: the operation and the facts.
func (r rule) conditions() int {
	n := 0
	if r.op != "" {
		n++
	}
	for _, v := range r.when {
		if v != "" {
			n++
		}
	}
	return n
}

// Condition implements roles.Rule.
func (r rule) Condition() string { return r.op + "|" + r.slot + "|" + strings.Join(r.when[:], "|") }

// Meaning implements roles.Rule.
func (r rule) Meaning() string { return r.Condition() + "=" + r.value }

// Section implements roles.Rule.
func (r rule) Section() string {
	if r.op == "" {
		return "operations"
	}
	return r.op
}

// Words of a rule for any operation.
var anyOperation = []string{"any operation", "every intervention"}

// Text implements roles.Rule.
func (r rule) Text(draw uint64) string {
	words := anyOperation
	for i := range operations {
		if operations[i].tool == r.op {
			words = operations[i].rules
		}
	}
	subject := words[draw%uint64(len(words))]
	for f, v := range r.when {
		if v != "" {
			subject += say(fact(f), v, draw>>(8+f))
		}
	}
	s := &slots[slotIndex(r.slot)]
	pick := func(forms ...string) string { return forms[(draw>>32)%uint64(len(forms))] }
	if !s.isGuard {
		form := pick("For %s, set %s to %s.", "With %s, pass %s=%s.", "Work on %s needs %s %s.")
		return fmt.Sprintf(form, subject, s.name, r.value)
	}
	do := s.do[(draw>>40)%uint64(len(s.do))]
	switch {
	case r.value == no:
		return fmt.Sprintf(pick("For %s, do not %s.", "With %s, never %s.", "Work on %s goes without this step: %s."), subject, do)
	case s.isLast:
		return fmt.Sprintf(pick("After %s, %s.", "Once %s is finished, %s.", "With %s, the last step is to %s."), subject, do)
	}
	return fmt.Sprintf(pick("Before %s, %s.", "Ahead of %s, %s.", "With %s, the first step is to %s."), subject, do)
}

var (
	negation = regexp.MustCompile(`(?i)\b(?:do not|never|goes without)\b`)
	setting  = regexp.MustCompile(`\b(window|mode|ticket|approver)(?: to |=| )([\w-]+)`)
)

// readRule returns the rule that a text states. A text without an operation, or with no slot or several, states none.
func readRule(text string) (rule, bool) {
	lower := strings.ToLower(text)
	var r rule
	found := slices.ContainsFunc(anyOperation, func(p string) bool { return strings.Contains(lower, p) })
	for i := range operations {
		for _, p := range operations[i].rules {
			if strings.Contains(lower, p) {
				r.op, found = operations[i].tool, true
			}
		}
	}
	decisions := 0
	for i := range slots {
		s := &slots[i]
		if s.isGuard && slices.ContainsFunc(s.do, func(p string) bool { return strings.Contains(lower, p) }) {
			r.slot, r.value = s.name, yes
			if negation.MatchString(text) {
				r.value = no
			}
			decisions++
		}
	}
	for _, m := range setting.FindAllStringSubmatch(text, -1) {
		if slices.Contains(slots[slotIndex(m[1])].values, m[2]) {
			r.slot, r.value = m[1], m[2]
			decisions++
		}
	}
	r.when = readFacts(text)
	return r, found && decisions == 1
}

// decide returns the index of the rule that decides a slot, or -1: the one with most conditions, else the first.
func decide(rules []rule, slot, op string, f facts) int {
	at := -1
	for i, r := range rules {
		if r.slot == slot && r.applies(op, f) && (at < 0 || r.conditions() > rules[at].conditions()) {
			at = i
		}
	}
	return at
}

// totalRules is the number of hidden rules.
const totalRules = 45

// hidden draws the rules. No two rules for a slot that apply to one task have the same number of conditions, except
// with different values of one fact.
func hidden(rng *rand.Rand, values [factCount][]string) []rule {
	var rules []rule
	value := func(f fact) string { return values[f][rng.IntN(len(values[f]))] }
	first := slices.IndexFunc(slots, func(s slot) bool { return s.isLast })
	settings := slices.IndexFunc(slots, func(s slot) bool { return !s.isGuard })
	for i := range operations {
		op := operations[i].tool
		for _, s := range []int{rng.IntN(first), first + rng.IntN(settings-first)} {
			r := rule{op: op, slot: slots[s].name, value: yes}
			if rng.IntN(3) > 0 {
				f := fact(rng.IntN(int(factCount)))
				r.when[f] = value(f)
			}
			rules = append(rules, r)
		}
		for n, s := range rng.Perm(len(slots) - settings)[:2] {
			of := &slots[settings+s]
			f := fact(rng.IntN(int(factCount)))
			v := rng.Perm(len(values[f]))
			for k := range 2 - n { // two values of the first argument, one of the second
				r := rule{op: op, slot: of.name, value: of.values[1+(k+rng.IntN(2))%(len(of.values)-1)]}
				r.when[f] = values[f][v[k]]
				rules = append(rules, r)
			}
		}
	}
	general := len(rules)
	hasException := make(map[int]bool)
	for len(rules) < totalRules {
		i := rng.IntN(general)
		r := rules[i]
		f := fact(rng.IntN(int(factCount)))
		if hasException[i] || r.when[f] != "" {
			continue
		}
		hasException[i] = true
		r.when[f] = value(f)
		of := slots[slotIndex(r.slot)].values
		r.value = of[(slices.Index(of, r.value)+1)%len(of)]
		rules = append(rules, r)
	}
	return rules
}
