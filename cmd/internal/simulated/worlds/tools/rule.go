package tools

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// rule decides one slot of the plans for an operation. A rule without an operation is about all operations.
type rule struct{ worlds.Case }

// Section implements worlds.Rule.
func (r rule) Section() string {
	return cmp.Or(r.When[operation], "operations")
}

// Words of a rule for any operation.
var anyOperation = []string{"any operation", "every intervention"}

// Text implements worlds.Rule.
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
	case s.isAfter:
		return fmt.Sprintf(pick("After %s, %s.", "Once %s is finished, %s.", "With %s, the last step is to %s."), subject, do)
	}
	return fmt.Sprintf(pick("Before %s, %s.", "Ahead of %s, %s.", "With %s, the first step is to %s."), subject, do)
}

var (
	negation = regexp.MustCompile(`(?i)\b(?:do not|never|goes without)\b`)
	setting  = regexp.MustCompile(`\b(window|mode|ticket|approver)(?: to |=| )([\w-]+)`)
)

// readCase returns the case of the rule that a text states. A text states none if it has no operation, no slot, or several slots.
var readCase = worlds.CachedOK(func(text string) (worlds.Case, bool) {
	lower := strings.ToLower(text)
	r := worlds.Case{When: readFacts(text)}
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

// ruleDrawer draws hidden rules. values has the values of each fact.
type ruleDrawer struct {
	*rand.Rand
	values [factCount][]string
}

// hidden draws the rules: for each operation rules about guards and arguments, and exceptions from some of them. Two rules with
// the same number of conditions for a slot of an operation have different values of one fact, so they never apply to the same task.
func hidden(rng *rand.Rand, values [factCount][]string) []worlds.Case {
	d := ruleDrawer{rng, values}
	var rules []worlds.Case
	for i := range operations {
		rules = append(rules, d.guardRules(operations[i].name)...)
		rules = append(rules, d.argumentRules(operations[i].name)...)
	}
	return d.addExceptions(rules)
}

func (d *ruleDrawer) fact() fact { return anyFact(uint64(d.IntN(int(factCount) - 1))) }

func (d *ruleDrawer) value(f fact) string { return d.values[f][d.IntN(len(d.values[f]))] }

// The slots are guards before the operation, guards after it, and arguments, in this order.
var (
	firstGuardAfter = slices.IndexFunc(slots, func(s slot) bool { return s.isAfter })
	firstArgument   = slices.IndexFunc(slots, func(s slot) bool { return !s.isGuard })
)

// guardRules requires a guard before an operation and one after it, each for all tasks or for a value of one fact.
func (d *ruleDrawer) guardRules(op string) (rules []worlds.Case) {
	for _, s := range []int{d.IntN(firstGuardAfter), firstGuardAfter + d.IntN(firstArgument-firstGuardAfter)} {
		r := worlds.Case{When: facts{operation: op}, Slot: slots[s].name, Value: yes}
		if d.IntN(3) > 0 {
			f := d.fact()
			r.When[f] = d.value(f)
		}
		rules = append(rules, r)
	}
	return rules
}

// argumentRules sets two arguments of an operation: the first one for two values of a fact, the second one for one value.
func (d *ruleDrawer) argumentRules(op string) (rules []worlds.Case) {
	for n, s := range d.Perm(len(slots) - firstArgument)[:2] {
		argument := &slots[firstArgument+s]
		unusual := argument.values[1:]
		f := d.fact()
		v := d.Perm(len(d.values[f]))
		for k := range 2 - n {
			r := worlds.Case{When: facts{operation: op}, Slot: argument.name, Value: unusual[(k+d.IntN(2))%len(unusual)]}
			r.When[f] = d.values[f][v[k]]
			rules = append(rules, r)
		}
	}
	return rules
}

// addExceptions adds exceptions until there are totalRules rules. An exception has one more fact than its rule, and the next value of the
// slot. No rule has two exceptions.
func (d *ruleDrawer) addExceptions(rules []worlds.Case) []worlds.Case {
	general := len(rules)
	hasException := make(map[int]bool)
	for len(rules) < totalRules {
		i := d.IntN(general)
		r := rules[i]
		f := d.fact()
		if hasException[i] || r.When[f] != "" {
			continue
		}
		hasException[i] = true
		r.When[f] = d.value(f)
		choices := slots[slotIndex(r.Slot)].values
		r.Value = choices[(slices.Index(choices, r.Value)+1)%len(choices)]
		rules = append(rules, r)
	}
	return rules
}
