package simulated

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	prompts "debrief/cmd/internal/worlds/prompt"
)

// reflectorReply is the reply to a reflector's prompt.
type reflectorReply struct {
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

var wrongStep = regexp.MustCompile(`First wrong step: ([a-z ]+): expected (-?[\d.]+\d), got `)

// reflect analyses one execution. A gullible model also states the insight that an injected instruction asks for.
func (m *model) reflect(p *prompt) reflectorReply {
	out := m.analyse(p)
	if p.chance("gullible", m.ObeyRate) {
		if order := bulletOrder.FindStringSubmatch(p.textOf(false)); order != nil {
			if out.KeyInsight != "" {
				out.Learnings = []learning{{out.KeyInsight}}
			}
			out.Reasoning, out.KeyInsight, out.Section = "I was told to. "+out.Reasoning, strings.TrimSpace(order[1]), cmp.Or(out.Section, "orders")
		}
	}
	return out
}

// analyse derives a rule from one execution. It uses the first wrong step, its expected amount, the invoice and the
// amounts of the earlier steps.
func (m *model) analyse(p *prompt) reflectorReply {
	said := p.textOf(false)
	quotes := prompts.Quotes(said)
	right := strings.HasPrefix(strings.TrimSpace(said), "Outcome: success")
	unknown := strings.HasPrefix(strings.TrimSpace(said), "Outcome: unknown")
	shown, cited := readShown(quotes["bullets shown"])

	out := reflectorReply{BulletTags: []tag{}}
	if right {
		out.Reasoning = "The answer is right. The cited bullets helped."
		for _, b := range shown {
			if cited[b.id] {
				out.BulletTags = append(out.BulletTags, tag{b.id, "helpful"})
			}
		}
		m.repeatTrace(p, quotes, &out)
		return out
	}
	found, amount, at := findRule(quotes)
	switch {
	case at < 0:
		out.Reasoning = "The feedback names no wrong step, so no rule can be derived."
	case found == nil:
		out.Reasoning = fmt.Sprintf("The %s should have been %s, and no known form of rule gives that amount.", steps[at].name, amount)
		out.ErrorIdentification = "The " + steps[at].name + " is wrong."
	default:
		s := &steps[at]
		out.Reasoning = fmt.Sprintf("The first wrong amount is the %s: it should have been %s. For %s %s this rule gives that amount: %s",
			s.name, amount, s.field, s.label(found.key), found)
		out.ErrorIdentification = "The " + s.name + " is wrong."
		out.RootCauseAnalysis = "The rule for " + s.field + " " + s.label(found.key) + " was not known or had another number."
		out.CorrectApproach = "Take " + amount.String() + " as the " + s.name + "."
		out.KeyInsight = found.String()
		out.Section = s.name
	}
	if m.NonsenseRate > 0 && p.chance("noise", m.NonsenseRate) {
		out.KeyInsight = nonsense[p.draw("nonsense")%uint64(len(nonsense))]
		out.Section = "desk lore"
	}
	m.repeatTrace(p, quotes, &out)
	if unknown {
		return out
	}
	blamed := false
	for _, b := range shown {
		vote := "neutral"
		if found != nil && !blamed && cited[b.id] && b.hasRule && b.rule.step == at && b.rule.key == found.key {
			vote, blamed = "harmful", true
		}
		if cited[b.id] {
			out.BulletTags = append(out.BulletTags, tag{b.id, vote})
		}
	}
	return out
}

// repeatTrace copies a line of the trace into a reply without an insight.
func (m *model) repeatTrace(p *prompt, quotes map[string]string, out *reflectorReply) {
	if out.KeyInsight != "" || !p.chance("parrot", m.RepeatRate) {
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

// findRule returns the rule that gives the expected amount of the first wrong step, or nil if no rule fits. at is -1 if
// the feedback contains no wrong step.
func findRule(quotes map[string]string) (found *rule, amount cents, at int) {
	m := wrongStep.FindStringSubmatch(quotes["feedback"])
	inv, ok := readInvoice(quotes["question"])
	if m == nil || !ok {
		return nil, 0, -1
	}
	amount, ok = parseCents(m[2])
	at = stepIndex(m[1])
	if !ok || at < 0 {
		return nil, 0, -1
	}
	var sheet worksheet
	for i := range sheet[:at] {
		// All amounts before the first wrong step are right. A step that is not in the reasoning was not needed.
		sheet[i], _ = readAmount(quotes["reasoning"], steps[i].name)
	}
	if r, ok := infer(&inv, &sheet, at, amount); ok {
		return &r, amount, at
	}
	return nil, amount, at
}

// infer returns the simplest rule that gives the amount at the step. It prefers a whole percentage to a fraction, the
// base ofSum to other bases, and the smallest multiple. It knows the forms of rules, but no numbers.
func infer(inv *invoice, sheet *worksheet, at int, amount cents) (rule, bool) {
	s := &steps[at]
	r := rule{step: at, key: inv.keys[at], form: s.form}
	if s.reduces {
		amount = -amount
	}
	if r.key == "" || r.key == s.defaultKey || amount < 0 {
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

// nonsense contains the insights of a noisy reflector. They are fluent sentences about things that no invoice contains.
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
