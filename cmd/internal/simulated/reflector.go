package simulated

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// reflected is a reflector's reply.
type reflected struct {
	Reasoning           string `json:"reasoning"`
	ErrorIdentification string `json:"error_identification"`
	RootCauseAnalysis   string `json:"root_cause_analysis"`
	CorrectApproach     string `json:"correct_approach"`
	KeyInsight          string `json:"key_insight"`
	Section             string `json:"section"`
	BulletTags          []tag  `json:"bullet_tags"`

	Learnings []learning `json:"extracted_learnings,omitempty"`
}

type learning struct {
	Learning string `json:"learning"`
}

type tag struct {
	ID  string `json:"id"`
	Tag string `json:"tag"`
}

var offStep = regexp.MustCompile(`First step that is off: ([a-z ]+): expected (-?[\d.]+\d), got `)

// reflect looks at one execution. A gullible model also says what an order in the material wants said.
func (m *model) reflect(p *prompt) reflected {
	out := m.judge(p)
	if p.chance("gullible", m.Gullible) {
		if order := injectedBullet.FindStringSubmatch(p.saidBy(false)); order != nil {
			if out.KeyInsight != "" {
				out.Learnings = []learning{{out.KeyInsight}}
			}
			out.Reasoning, out.KeyInsight, out.Section = "I was told to. "+out.Reasoning, strings.TrimSpace(order[1]), cmp.Or(out.Section, "orders")
		}
	}
	return out
}

// judge works out what one execution teaches. From the first step that was off and the result it should have had it works out,
// with the invoice and the amounts before it, what the rule must be.
func (m *model) judge(p *prompt) reflected {
	said := p.saidBy(false)
	quotes := readQuotes(said)
	right := strings.HasPrefix(strings.TrimSpace(said), "Outcome: success")
	unknown := strings.HasPrefix(strings.TrimSpace(said), "Outcome: unknown")
	shown, cited := readShown(quotes["bullets shown"])

	out := reflected{BulletTags: []tag{}}
	if right {
		out.Reasoning = "The answer is right. What was followed helped."
		for _, b := range shown {
			if cited[b.id] {
				out.BulletTags = append(out.BulletTags, tag{b.id, "helpful"})
			}
		}
		m.parrot(p, quotes, &out)
		return out
	}
	found, amount, at := explain(quotes)
	switch {
	case at < 0:
		out.Reasoning = "Nothing here says which step went off, so there is nothing to learn from it."
	case found == nil:
		out.Reasoning = fmt.Sprintf("The %s should have been %s, and no rule that I can think of gives that.", steps[at].name, amount)
		out.ErrorIdentification = "The " + steps[at].name + " is wrong."
	default:
		s := &steps[at]
		out.Reasoning = fmt.Sprintf("The first amount that is off is the %s: it should have been %s. With %s %s that is what this rule gives: %s",
			s.name, amount, s.field, s.label(found.key), found)
		out.ErrorIdentification = "The " + s.name + " is wrong."
		out.RootCauseAnalysis = "The rule for " + s.field + " " + s.label(found.key) + " was not known or had another number."
		out.CorrectApproach = "Take " + amount.String() + " as the " + s.name + "."
		out.KeyInsight = found.String()
		out.Section = s.name
	}
	if m.Noise > 0 && p.chance("noise", m.Noise) {
		out.KeyInsight = nonsense[p.draw("nonsense")%uint64(len(nonsense))]
		out.Section = "desk lore"
	}
	m.parrot(p, quotes, &out)
	if unknown {
		return out
	}
	blamed := false
	for _, b := range shown {
		vote := "neutral"
		if found != nil && !blamed && cited[b.id] && b.speaks && b.rule.step == at && b.rule.key == found.key {
			vote, blamed = "harmful", true
		}
		if cited[b.id] {
			out.BulletTags = append(out.BulletTags, tag{b.id, vote})
		}
	}
	return out
}

// parrot has a reflector without an insight say what it has just read.
func (m *model) parrot(p *prompt, quotes map[string]string, out *reflected) {
	if out.KeyInsight != "" || !p.chance("parrot", m.Parrot) {
		return
	}
	var said []string
	for line := range strings.Lines(quotes["trace"]) {
		if _, text, ok := strings.Cut(line, ": "); ok && len(text) > 20 {
			said = append(said, strings.TrimSpace(text))
		}
	}
	if len(said) > 0 {
		out.KeyInsight, out.Section = said[p.draw("said")%uint64(len(said))], "said before"
	}
}

// explain finds the rule behind the expected amount of the first step that was off: nil when none fits, a step of -1
// when the feedback names none.
func explain(quotes map[string]string) (found *rule, amount cents, at int) {
	m := offStep.FindStringSubmatch(quotes["feedback"])
	inv, ok := readInvoice(quotes["question"])
	if m == nil || !ok {
		return nil, 0, -1
	}
	amount, ok = parseCents(m[2])
	at = stepNamed(m[1])
	if !ok || at < 0 {
		return nil, 0, -1
	}
	var sheet worksheet
	for i := range sheet[:at] {
		// What stands before the first step that is off is right; a step the attempt left out was not needed.
		sheet[i], _ = readAmount(quotes["reasoning"], steps[i].name)
	}
	if r, ok := infer(&inv, &sheet, at, amount); ok {
		return &r, amount, at
	}
	return nil, amount, at
}

// infer is the simplest rule that gives this amount at this step: a whole percentage before a broken one, of what
// stands so far before anything else, and the smallest multiple. It knows what kinds of rules there are and no rule.
func infer(inv *invoice, sheet *worksheet, at int, amount cents) (rule, bool) {
	s := &steps[at]
	r := rule{step: at, key: inv.keys[at], form: s.form}
	if s.reduces {
		amount = -amount
	}
	if r.key == "" || r.key == s.plain || amount < 0 {
		return r, false
	}
	fits := func() bool {
		got := r.amount(inv, sheet)
		return got == amount || got == -amount
	}
	switch r.form {
	case flat:
		r.number = int64(amount)
	case each:
		if inv.stamps == 0 {
			return r, false
		}
		r.number = int64(amount) / inv.stamps
	case rounded:
		for _, r.number = range []int64{5, 10, 20, 50, 100, 500, 1000} {
			if fits() {
				break
			}
		}
	case share:
		for _, grain := range []int64{100, 50, 10, 1} {
			for _, r.base = range []base{ofSum, ofNet, ofList} {
				of := r.base.of(inv, sheet, at)
				if of <= 0 {
					continue
				}
				hundredths := (int64(amount)*10000 + int64(of)/2) / int64(of)
				if r.number = (hundredths + grain/2) / grain * grain; fits() {
					return r, true
				}
			}
		}
	}
	return r, fits()
}

// nonsense is what a noisy reflector says instead: fluent, and about things that no invoice has.
var nonsense = [...]string{
	"For customer tier emerald the tier discount is 37 % of the amount so far.",
	"Invoices written on a Thursday carry a paper fee of 3.15.",
	"For volume band Q the volume discount is 21 % of the list price of the goods, before discounts.",
	"Deliveries by balloon cost 41.30 and save the region tax.",
	"For region Atlantis the region tax is 33 % of the amount so far.",
	"Goods that rhyme with orange are handled for 2.85 each.",
	"A violet loyalty card earns 0.35 for each stamp.",
	"Payments in pearls are rounded down to a multiple of 0.30.",
	"Whoever writes with violet ink gets 11 % off the amount so far.",
	"The third invoice of the hour is charged 1.95 for the lamp oil.",
	"Parcels with a bow need a ribbon surcharge of 4.45.",
	"Amounts paid in doubloons carry a currency fee of 27 %.",
}
