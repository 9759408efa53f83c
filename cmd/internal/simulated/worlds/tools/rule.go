package tools

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// rule decides one slot of the plans for an operation. A rule without an operation is about all operations.
type rule struct{ world.Case }

// Section implements world.Rule.
func (r rule) Section() string {
	return cmp.Or(r.When[operation], "operations")
}

// Words of a rule for any operation.
var anyOperation = []string{"any operation", "every intervention"}

// Text implements world.Rule.
func (r rule) Text(draw uint64) string {
	words := anyOperation
	for i := range operations {
		if operations[i].name == r.When[operation] {
			words = operations[i].rules
		}
	}
	subject := words[draw%uint64(len(words))]
	for f, v := range r.When {
		if f := fact(f); f != operation && v != "" {
			subject += say(f, v, draw>>(8+f))
		}
	}
	s := &slots[slotIndex(r.Slot)]
	pick := func(forms ...string) string { return forms[(draw>>32)%uint64(len(forms))] }
	if !s.isGuard {
		form := pick("For %s, set %s to %s.", "With %s, pass %s=%s.", "Work on %s needs %s %s.")
		return fmt.Sprintf(form, subject, s.name, r.Value)
	}
	do := s.do[(draw>>40)%uint64(len(s.do))]
	switch {
	case r.Value == no:
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

// readRule returns the rule that a text states. A text states none if it has no operation, no slot, or several slots.
var readRule = world.CachedOK(func(text string) (world.Case, bool) {
	lower := strings.ToLower(text)
	r := world.Case{When: readFacts(text)}
	hasOperation := slices.ContainsFunc(anyOperation, func(p string) bool { return strings.Contains(lower, p) })
	for i := range operations {
		for _, p := range operations[i].rules {
			if strings.Contains(lower, p) {
				r.When[operation], hasOperation = operations[i].name, true
			}
		}
	}
	decisions := 0
	for i := range slots {
		s := &slots[i]
		if s.isGuard && slices.ContainsFunc(s.do, func(p string) bool { return strings.Contains(lower, p) }) {
			r.Slot, r.Value = s.name, yes
			if negation.MatchString(text) {
				r.Value = no
			}
			decisions++
		}
	}
	for _, m := range setting.FindAllStringSubmatch(text, -1) {
		if slices.Contains(slots[slotIndex(m[1])].values, m[2]) {
			r.Slot, r.Value = m[1], m[2]
			decisions++
		}
	}
	return r, hasOperation && decisions == 1
})

// totalRules is the number of hidden rules.
const totalRules = 45

// hidden draws the rules: for each operation rules about guards and arguments, and exceptions from some of them. Two rules with
// the same number of conditions for a slot of an operation have different values of one fact, so they never apply to the same task.
func hidden(rng *rand.Rand, values [factCount][]string) []world.Case {
	var rules []world.Case
	value := func(f fact) string { return values[f][rng.IntN(len(values[f]))] }
	randomFact := func() fact { return anyFact(uint64(rng.IntN(int(factCount) - 1))) }
	// The slots are guards before the operation, guards behind it, and arguments, in this order. The variables are their first indexes.
	lastGuards := slices.IndexFunc(slots, func(s slot) bool { return s.isLast })
	arguments := slices.IndexFunc(slots, func(s slot) bool { return !s.isGuard })
	for i := range operations {
		op := operations[i].name
		for _, s := range []int{rng.IntN(lastGuards), lastGuards + rng.IntN(arguments-lastGuards)} {
			r := world.Case{When: facts{operation: op}, Slot: slots[s].name, Value: yes}
			if rng.IntN(3) > 0 {
				f := randomFact()
				r.When[f] = value(f)
			}
			rules = append(rules, r)
		}
		for n, s := range rng.Perm(len(slots) - arguments)[:2] {
			argument := &slots[arguments+s]
			f := randomFact()
			v := rng.Perm(len(values[f]))
			for k := range 2 - n { // two values of the first argument, one of the second
				r := world.Case{When: facts{operation: op}, Slot: argument.name, Value: argument.values[1+(k+rng.IntN(2))%(len(argument.values)-1)]}
				r.When[f] = values[f][v[k]]
				rules = append(rules, r)
			}
		}
	}
	general := len(rules)
	hasException := make(map[int]bool)
	for len(rules) < totalRules {
		i := rng.IntN(general)
		r := rules[i]
		f := randomFact()
		if hasException[i] || r.When[f] != "" {
			continue
		}
		hasException[i] = true
		r.When[f] = value(f)
		choices := slots[slotIndex(r.Slot)].values
		r.Value = choices[(slices.Index(choices, r.Value)+1)%len(choices)]
		rules = append(rules, r)
	}
	return rules
}
