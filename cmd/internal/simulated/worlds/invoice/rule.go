package invoice

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// rule gives the amount of a step for one key. The step decides the form.
type rule struct {
	condition
	number cents // hundredths of a percent for the form share
	base   base  // only of a percentage
}

// Condition implements worlds.Rule.
func (r rule) Condition() string { return r.condition.String() }

// Meaning implements worlds.Rule.
func (r rule) Meaning() string { return fmt.Sprint(r.Condition(), "=", r.number, r.base) }

// Section implements worlds.Rule.
func (r rule) Section() string { return steps[r.step].name }

// wordings are the sentences that state a rule: %[1]s is its condition, %[2]s its step and %[3]s its decision.
var wordings = [...]string{
	"For %[1]s the %[2]s is %[3]s.",
	"The %[2]s is %[3]s where the invoice says %[1]s.",
	"With %[1]s, work out the %[2]s as %[3]s.",
	"Invoices of %[1]s have this %[2]s: %[3]s.",
}

// Text implements worlds.Rule.
func (r rule) Text(draw uint64) string {
	return fmt.Sprintf(wordings[draw%uint64(len(wordings))], r.phrase(), r.Section(), r.decision())
}

// decision states the number and the base.
func (r rule) decision() string {
	switch steps[r.step].form {
	case share:
		return points(r.number) + " % of " + baseNames[r.base]
	case each:
		return r.number.String() + " for each stamp"
	case rounded:
		return "down to a multiple of " + r.number.String()
	}
	return r.number.String()
}

// points formats hundredths of a percent: 700 is "7", 725 is "7.25".
func points(n cents) string {
	return strings.TrimSuffix(strings.TrimRight(n.String(), "0"), ".")
}

// decisions are the patterns of a decision, by form. Their groups are the number and, for share, the base.
var decisions = [...]*regexp.Regexp{
	share:   regexp.MustCompile(`\b(\d+(?:\.\d+)?) % of (` + strings.Join(baseNames[:], "|") + `)`),
	flat:    regexp.MustCompile(`\b(\d+\.\d\d)\b`),
	each:    regexp.MustCompile(`\b(\d+\.\d\d) for each stamp\b`),
	rounded: regexp.MustCompile(`\bdown to a multiple of (\d+\.\d\d)\b`),
}

// readRule returns the rule that a text states. A text states none if it has no condition or several, or no decision of the form
// of its step.
var readRule = worlds.CachedOK(func(text string) (rule, bool) {
	c, ok := readCondition(text)
	if !ok {
		return rule{}, false
	}
	form := steps[c.step].form
	m := decisions[form].FindStringSubmatch(text)
	if m == nil {
		return rule{}, false
	}
	r := rule{condition: c}
	r.number, ok = readCents(m[1])
	if form == share {
		r.base = base(slices.Index(baseNames[:], m[2]))
	}
	return r, ok
})

// possibleNumber returns a number of a right or a wrong rule.
func possibleNumber(f form, draw uint64) cents {
	n := cents(draw % 1000)
	if f == rounded {
		return []cents{5, 10, 20, 50, 100, 500, 1000, n + 1}[n%8]
	}
	return number(f, n%18)
}

// number returns the number n of a rule, from 0 to 17. Percentages are below 20. The ranges contain no quantity, stamp count or
// invoice number, so that no task reveals a number.
func number(f form, n cents) cents {
	switch f {
	case share:
		return (n + 2) * 100
	case each:
		return 5 * (n + 1) // 0.05 to 0.90
	}
	return 205 + 45*n // 2.05 to 9.70
}

// hidden draws the rules of a seed, in the order of the steps.
func hidden(seed uint64) []rule {
	rng := rand.New(rand.NewPCG(seed, 0x686f757365)) // "house"
	var rules []rule
	for i := range steps {
		s := &steps[i]
		// The rules of a step have different numbers, else their sentences would differ in one word only.
		draw := rng.Perm(18)
		for k, key := range s.keys {
			r := rule{condition: condition{i, key}}
			switch s.form {
			case share:
				bases := possibleBases(s.name)
				r.base = bases[rng.IntN(len(bases))]
				r.number = number(share, cents(draw[k]))
			case rounded:
				r.number = []cents{5, 10, 50, 100}[(draw[0]+k)%4]
			default:
				r.number = number(s.form, cents(draw[k]))
			}
			rules = append(rules, r)
		}
	}
	return rules
}

func possibleBases(step string) []base {
	switch step {
	case "volume discount":
		return []base{ofSum, ofList}
	case "handling surcharge":
		return []base{ofSum, ofNet, ofList}
	case "region tax":
		return []base{ofSum, ofNet}
	}
	return []base{ofSum}
}
