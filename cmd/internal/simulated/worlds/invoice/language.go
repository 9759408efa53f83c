package invoice

import (
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Language is the knowledge of a model about invoices: the steps and the forms of rules, but no number of a rule.
type Language struct{}

// NewModel returns a model that knows no hidden rule. The seed selects the prompts with errors.
func NewModel(seed uint64, e worlds.Imperfection) *worlds.Model {
	return &worlds.Model{Seed: seed, Errors: e, Language: Language{}}
}

// report returns a line "name: amount" for each step.
func report(inv *invoice, sheet *worksheet) string {
	lines := "goods: " + inv.goods.String() + "\n"
	for i, c := range sheet {
		lines += steps[i].name + ": " + c.String() + "\n"
	}
	return lines
}

// Answer implements worlds.Language. Of two bullets about one key the model applies the first.
func (Language) Answer(question, _, system string) worlds.Answer {
	out := worlds.Answer{BulletIDs: []string{}}
	inv, ok := readInvoice(question)
	if !ok {
		out.Reasoning, out.FinalAnswer = "This is no invoice, and this simulated model knows nothing else.", "I do not know."
		return out
	}
	var rules []rule
	var ids []string
	for _, b := range worlds.ReadBullets(system) {
		if r, ok := readRule(b.Text); ok {
			rules, ids = append(rules, r), append(ids, b.ID)
		}
	}
	sheet, used := fill(&inv, rules)
	for step, i := range used { // i is the index of the rule of the step, or -1
		about := "For " + condition{step, inv.keys[step]}.phrase()
		switch {
		case i >= 0:
			out.Reasoning += about + " I follow [" + ids[i] + "].\n"
			out.BulletIDs = append(out.BulletIDs, ids[i])
		case steps[step].needsRule(inv.keys[step]):
			out.Reasoning += about + " the playbook has no rule, so I take nothing.\n"
		}
	}
	out.Reasoning += report(&inv, &sheet)
	out.FinalAnswer = sheet.total(&inv).String()
	return out
}

// Read implements worlds.Language.
func (Language) Read(text string) (worlds.Rule, bool) {
	r, ok := readRule(text)
	return r, ok
}

// Platitudes implements worlds.Language.
func (Language) Platitudes() []string {
	return worlds.Platitudes(7,
		[]string{"Add up carefully", "Check every line", "Keep the order of the steps", "Write clearly", "Read the invoice to its end", "Stay consistent"},
		[]string{"before you answer.", "on each invoice.", "because errors annoy customers.", "as a good clerk does.", "and look at the result again."})
}

// Features implements worlds.World: the conditions of a text, with little weight its words, and noise that only this text has.
func (Language) Features(text string) map[string]float64 {
	out := make(map[string]float64)
	if inv, ok := readInvoice(text); ok {
		for i, key := range inv.keys {
			if steps[i].needsRule(key) {
				out["key "+condition{i, key}.String()] = 1
			}
		}
	} else if c, ok := readCondition(text); ok {
		out["key "+c.String()] = 1
	}
	for _, word := range strings.Fields(strings.ToLower(text)) {
		out["word "+strings.Trim(word, ".,:;%?\"")] += 0.08
	}
	worlds.AddNoise(out, text)
	return out
}

// Analyse implements worlds.Language.
func (Language) Analyse(e *worlds.Execution, _ worlds.Dice) worlds.Analysis {
	r, ok := derive(e)
	if !ok {
		return worlds.Analysis{Reasoning: "No rule follows from the feedback."}
	}
	a := worlds.Analysis{
		Insight: r, Reasoning: "One rule gives the expected amount.",
		Error:    "The " + r.Section() + " is wrong.",
		Approach: "Compute the " + r.Section() + " by the rule.",
	}
	for _, b := range e.Shown {
		if old, ok := readRule(b.Text); ok && b.Cited && old.condition == r.condition {
			a.Blamed = append(a.Blamed, b.ID)
			break
		}
	}
	return a
}

var wrongStep = regexp.MustCompile(`First wrong step: ([a-z ]+): expected (-?[\d.]+\d), got `)

// derive returns the rule that gives the expected amount of the first wrong step.
func derive(e *worlds.Execution) (rule, bool) {
	m := wrongStep.FindStringSubmatch(e.Feedback)
	inv, ok := readInvoice(e.Question)
	if m == nil || !ok {
		return rule{}, false
	}
	want, ok := readCents(m[2])
	at := stepIndex(m[1]) // the first wrong step
	if !ok || at < 0 {
		return rule{}, false
	}
	// All amounts before the first wrong step are right. A step that is not in the reasoning was not needed.
	var sheet worksheet
	stated := readSteps(e.Reasoning)
	for i := range at {
		sheet[i], _ = readCents(stated[steps[i].name])
	}
	return infer(&inv, &sheet, at, want)
}

// readSteps returns the amounts in the lines "name: amount" of a reasoning.
func readSteps(reasoning string) map[string]string {
	stated := make(map[string]string)
	for line := range strings.Lines(reasoning) {
		if name, amount, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			stated[name] = amount
		}
	}
	return stated
}

// infer returns the simplest rule that gives the amount want in the step at. It prefers a whole percentage to a fraction, the
// base ofSum to other bases, and the smallest multiple. It knows the forms of rules, but no numbers.
func infer(inv *invoice, sheet *worksheet, at int, want cents) (rule, bool) {
	s := &steps[at]
	r := rule{condition: condition{at, inv.keys[at]}}
	amount := want
	if s.reduces {
		amount = -want
	}
	if !s.needsRule(r.key) || amount < 0 {
		return r, false
	}
	for _, r := range candidates(r, inv, sheet, amount) {
		if r.amount(inv, sheet) == want {
			return r, true
		}
	}
	return r, false
}

// candidates returns rules with the condition and the step of r that can give an amount, the simplest first.
func candidates(r rule, inv *invoice, sheet *worksheet, amount cents) (out []rule) {
	add := func(number cents, b base) {
		out = append(out, rule{condition: r.condition, number: number, base: b})
	}
	switch steps[r.step].form {
	case flat:
		add(amount, r.base)
	case each:
		add(amount/cents(max(inv.stamps, 1)), r.base)
	case rounded:
		for _, multiple := range []cents{5, 10, 20, 50, 100, 500, 1000} {
			add(multiple, r.base)
		}
	case share:
		for _, grain := range []cents{100, 50, 10, 1} { // hundredths of a percent
			for _, b := range []base{ofSum, ofNet, ofList} {
				if of := b.of(inv, sheet, r.step); of > 0 {
					exact := (amount*10000 + of/2) / of
					add((exact+grain/2)/grain*grain, b)
				}
			}
		}
	}
	return out
}

// Generalise implements worlds.Language. The rule is about another key of the step. If the step has one key, the rule has
// another number.
func (Language) Generalise(of worlds.Rule, _ *worlds.Execution, d worlds.Dice) worlds.Rule {
	r, ok := of.(rule)
	if !ok {
		return of
	}
	draw := d.Draw("other key")
	keys := steps[r.step].keys
	if len(keys) < 2 {
		r.number += cents(1+draw%3) * 100
		return r
	}
	distance := 1 + int(draw%uint64(len(keys)-1)) // from the key of the rule, so never 0
	r.key = keys[(slices.Index(keys, r.key)+distance)%len(keys)]
	return r
}
