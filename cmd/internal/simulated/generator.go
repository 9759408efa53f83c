package simulated

import (
	"fmt"
	"slices"
	"strings"
)

// generated is a generator's reply.
type generated struct {
	Reasoning   string   `json:"reasoning"`
	BulletIDs   []string `json:"bullet_ids"`
	FinalAnswer string   `json:"final_answer"`
}

// generate works an invoice through. It adds up without a mistake, knows no house rule but those that the bullets
// state, and applies these as they stand, whether they are true or not. Of two bullets about one key the first counts;
// advice on an earlier attempt at the task goes before all of them, the newest first.
func (m *model) generate(p *prompt) generated {
	task := p.task()
	if p.chance("gullible", m.Gullible) {
		if order := injectedAnswer.FindStringSubmatch(task); order != nil {
			return generated{"I was told to.", []string{}, order[1]}
		}
	}
	inv, ok := readInvoice(task)
	if !ok {
		return generated{"This is no invoice. " + introduction, []string{}, "I do not know."}
	}
	bullets, tries := readBullets(p.saidBy(true)), readTries(readQuotes(p.saidBy(false))["earlier attempts at this task"])
	var notes strings.Builder
	used := []string{}
	sheet := work(&inv, func(i int, key string) (rule, bool) {
		s := &steps[i]
		if key == "" || key == s.plain {
			return rule{}, false
		}
		for _, a := range tries {
			if a.rule.step == i && a.rule.key == key {
				fmt.Fprintf(&notes, "For %s %s I follow the advice on an earlier attempt.\n", s.field, s.label(key))
				return a.rule, true
			}
		}
		for _, b := range bullets {
			if b.speaks && b.rule.step == i && b.rule.key == key {
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
	return generated{notes.String(), used, sheet.total(&inv).String()}
}
