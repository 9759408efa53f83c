package simulated

import (
	"fmt"
	"slices"
	"strings"

	prompts "debrief/cmd/internal/worlds/prompt"
)

// generatorReply is the reply to a generator's prompt.
type generatorReply struct {
	Reasoning   string   `json:"reasoning"`
	BulletIDs   []string `json:"bullet_ids"`
	FinalAnswer string   `json:"final_answer"`
}

// generate computes an invoice. It adds up without mistakes and knows only the rules in the bullets, which it applies
// even if they are wrong. Of two bullets about one key it applies the first. Insights from earlier rounds of the task
// come before all bullets, the newest first.
func (m *model) generate(p *prompt) generatorReply {
	task := p.task()
	if p.chance("gullible", m.ObeyRate) {
		if order := answerOrder.FindStringSubmatch(task); order != nil {
			return generatorReply{"I was told to.", []string{}, order[1]}
		}
	}
	inv, ok := readInvoice(task)
	if !ok {
		return generatorReply{"This is no invoice. " + introduction, []string{}, "I do not know."}
	}
	bullets, tries := readBullets(p.textOf(true)), readRounds(prompts.Quotes(p.textOf(false))["earlier attempts at this task"])
	var notes strings.Builder
	used := []string{}
	sheet := fillWorksheet(&inv, func(i int, key string) (rule, bool) {
		s := &steps[i]
		if key == "" || key == s.defaultKey {
			return rule{}, false
		}
		for _, a := range tries {
			if a.rule.step == i && a.rule.key == key {
				fmt.Fprintf(&notes, "For %s %s I follow the advice on an earlier attempt.\n", s.field, s.label(key))
				return a.rule, true
			}
		}
		for _, b := range bullets {
			if b.hasRule && b.rule.step == i && b.rule.key == key {
				fmt.Fprintf(&notes, "For %s %s I follow [%s].\n", s.field, s.label(key), b.id)
				if !slices.Contains(used, b.id) {
					used = append(used, b.id)
				}
				return b.rule, true
			}
		}
		fmt.Fprintf(&notes, "For %s %s the playbook has no rule, so I take nothing.\n", s.field, s.label(key))
		return rule{}, false
	})
	fmt.Fprintf(&notes, "goods: %s\n", inv.goods)
	for i, c := range sheet {
		fmt.Fprintf(&notes, "%s: %s\n", steps[i].name, c)
	}
	return generatorReply{notes.String(), used, sheet.total(&inv).String()}
}
