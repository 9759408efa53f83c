package simulated

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is the meaning of a sentence about one key of one step. The zero value is no valid rule.
type Rule struct{ r rule }

// ReadRule returns the rule that a text states, or false.
func ReadRule(text string) (Rule, bool) {
	r, ok := readRule(text)
	return Rule{r}, ok
}

// Condition identifies the step and the key.
func (r Rule) Condition() string { return steps[r.r.step].name + " " + r.r.key }

// Meaning identifies the step, the key, the form, the number and the base.
func (r Rule) Meaning() string { return fmt.Sprint(r.Condition(), r.r.form, r.r.number, r.r.base) }

// Section returns the name of the step.
func (r Rule) Section() string { return steps[r.r.step].name }

// Text states the rule. The draw selects the wording; 0 is the usual one.
func (r Rule) Text(draw uint64) string {
	s := &steps[r.r.step]
	key := s.field + " " + s.label(r.r.key)
	_, quantity, _ := strings.Cut(strings.TrimSuffix(r.r.String(), "."), " the "+s.name+" is ")
	switch draw % 4 {
	case 1:
		return fmt.Sprintf("The %s is %s where the invoice says %s.", s.name, quantity, key)
	case 2:
		return fmt.Sprintf("With %s, work out the %s as %s.", key, s.name, quantity)
	case 3:
		return fmt.Sprintf("Invoices of %s have this %s: %s.", key, s.name, quantity)
	}
	return r.r.String()
}

// Vary returns a wrong generalisation: the rule for another key of the same step.
func (r Rule) Vary(draw uint64) Rule {
	keys := steps[r.r.step].keys
	at := slices.Index(keys, r.r.key)
	if len(keys) < 2 || at < 0 {
		r.r.number += int64(1+draw%3) * 100
		return r
	}
	r.r.key = keys[(at+1+int(draw%uint64(len(keys)-1)))%len(keys)]
	return r
}

// Infer returns the simplest rule that gives the expected amount of the first wrong step in a feedback, or false.
func Infer(question, reasoning, feedback string) (Rule, bool) {
	found, _, _ := findRule(map[string]string{"question": question, "reasoning": reasoning, "feedback": feedback})
	if found == nil {
		return Rule{}, false
	}
	return Rule{*found}, true
}

// Concepts returns the steps and keys that a text speaks of: those of an invoice that have a rule, or the one of a rule.
func Concepts(text string) []string {
	var out []string
	if inv, ok := readInvoice(text); ok {
		for i := range steps {
			if k := inv.keys[i]; k != "" && k != steps[i].defaultKey {
				out = append(out, Rule{rule{step: i, key: k}}.Condition())
			}
		}
		return out
	}
	if r, ok := subject(text); ok {
		out = append(out, Rule{r}.Condition())
	}
	return out
}

// Nonsense returns fluent sentences about things that no invoice contains.
func Nonsense() []string { return slices.Clone(nonsense[:]) }
