package invoice

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Verdict implements world.World.
func (w *World) Verdict(t world.Task, a world.Attempt) world.Verdict {
	inv, _ := readInvoice(t.Question)
	sheet, _ := fill(&inv, w.rules)
	return compare(&inv, &sheet, a)
}

// Amount is the right amount of one step.
type Amount struct{ Step, Amount string }

// Amounts returns the right amounts of a task: the goods, each step, and the total.
func (w *World) Amounts(t world.Task) (all []Amount, total string) {
	inv, _ := readInvoice(t.Question)
	sheet, _ := fill(&inv, w.rules)
	all = append(all, Amount{"goods", inv.goods.String()})
	for i, c := range sheet {
		all = append(all, Amount{steps[i].name, c.String()})
	}
	return all, sheet.total(&inv).String()
}

// Wrong implements world.World: it praises a wrong answer, and corrects a right one by an invented number.
func (w *World) Wrong(t world.Task, a world.Attempt, v world.Verdict) world.Verdict {
	if !v.Right() {
		return world.Verdict{Score: 1, Feedback: "The answer is right."}
	}
	inv, sheet := w.misjudge(&t)
	return compare(&inv, &sheet, a)
}

// misjudge returns a wrong calculation of an invoice. One of its rules has another number, so that the model can derive
// that wrong rule. Without a rule the sum of the goods is wrong.
func (w *World) misjudge(t *world.Task) (invoice, worksheet) {
	inv, _ := readInvoice(t.Question)
	right, used := fill(&inv, w.rules)
	deciding := decidingRules(used)
	if len(deciding) == 0 {
		inv.goods += cents(1 + world.Draw(w.Seed, "wrong goods", t.ID)%500)
		return inv, right
	}
	rules := slices.Clone(w.rules)
	r := &rules[deciding[world.Draw(w.Seed, "wrong step", t.ID)%uint64(len(deciding))]]
	for try := 0; ; try++ {
		r.number = possibleNumber(steps[r.step].form, world.Draw(w.Seed, fmt.Sprint("wrong number ", try), t.ID))
		sheet, _ := fill(&inv, rules)
		if sheet[r.step] != right[r.step] && sheet.total(&inv) != right.total(&inv) {
			return inv, sheet
		}
	}
}

// compare returns the verdict on an attempt. Its feedback names the first wrong step.
func compare(inv *invoice, sheet *worksheet, a world.Attempt) world.Verdict {
	want := sheet.total(inv).String()
	if a.Answer == want {
		return world.Verdict{Score: 1, Feedback: "The answer is right."}
	}
	feedback := fmt.Sprintf("The answer is wrong: expected %s, got %s.", want, a.Answer)
	got := readSteps(a.Reasoning)
	for line := range strings.Lines(report(inv, sheet)) {
		name, amount, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if got[name] != amount {
			feedback += fmt.Sprintf(" First wrong step: %s: expected %s, got %s.", name, amount, got[name])
			break
		}
	}
	return world.Verdict{Feedback: feedback}
}
