// Package invoice is a simulated world of an invoice desk. The amount due of an invoice depends on 21 hidden rules, such as
// the discount of gold customers or the tax of region North. The feedback names the first wrong step and its expected
// amount.
//
// The model knows the steps and the forms of rules (vocabulary.go), but no numbers. It computes without mistakes and
// follows the bullets in the prompt. As a Reflector it derives a rule from one expected amount. Decisions of the Curator
// and errors are those of worlds.Model.
package invoice

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Name is the name of the world.
const Name = "invoice"

// World is the invoice desk of one seed.
type World struct {
	Language
	*worlds.Model
	rules []rule
	tasks worlds.Tasks
}

// New returns the world of a seed.
func New(seed uint64, e worlds.Imperfection) *World {
	return &World{Model: NewModel(seed, e), rules: hidden(seed)}
}

// Name implements worlds.World.
func (*World) Name() string { return Name }

// Train implements worlds.World. There are at most MaxTrain tasks.
func (w *World) Train(n int) []worlds.Task {
	return w.tasks.First(train, min(n, MaxTrain), func(n int) []worlds.Task { return w.write(train, n) })
}

// HeldOut implements worlds.World. There is one phase, and there are at most MaxHeldOut tasks.
func (w *World) HeldOut(_, n int) []worlds.Task {
	return w.tasks.First(heldOut, min(n, MaxHeldOut), func(n int) []worlds.Task { return w.write(heldOut, n) })
}

// ByHand implements worlds.World. It returns a bullet for each rule.
func (w *World) ByHand(int) []string {
	return worlds.ByHand(w.Seed, w.rules, func(r rule) worlds.Rule { return r })
}

// States implements worlds.World. It reports whether a text states exactly one of the rules.
func (w *World) States(text string, _, rule int) bool {
	r, ok := readRule(text)
	return ok && r == w.rules[rule]
}

// Distractors implements worlds.World. The rules are about keys that no invoice has.
func (w *World) Distractors(n int) []string {
	return worlds.Distinct(n, func(i int) string {
		d := worlds.Draw(w.Seed, "distractor", fmt.Sprint(i))
		key := onsets[d%20] + codas[(d>>8)%20]
		return "For " + fmt.Sprintf(fields[(d>>16)%6], key) + " " + fmt.Sprintf(numbers[(d>>24)%3], 2+(d>>32)%17)
	})
}

// Verdict implements worlds.World.
func (w *World) Verdict(t worlds.Task, a worlds.Attempt) worlds.Verdict {
	inv, _ := readInvoice(t.Question)
	sheet, _ := fill(&inv, w.rules)
	return compare(&inv, &sheet, a)
}

// Amount is the right amount of one step.
type Amount struct{ Step, Amount string }

// Amounts returns the right amounts of a task: the goods, each step, and the total.
func (w *World) Amounts(t worlds.Task) (all []Amount, total string) {
	inv, _ := readInvoice(t.Question)
	sheet, _ := fill(&inv, w.rules)
	all = append(all, Amount{"goods", inv.goods.String()})
	for i, c := range sheet {
		all = append(all, Amount{steps[i].name, c.String()})
	}
	return all, sheet.total(&inv).String()
}

// Wrong implements worlds.World: it praises a wrong answer, and corrects a right one by an invented number.
func (w *World) Wrong(t worlds.Task, a worlds.Attempt, v worlds.Verdict) worlds.Verdict {
	if !v.Right() {
		return worlds.Verdict{Score: 1, Feedback: "The answer is right."}
	}
	inv, sheet := w.misjudge(&t)
	return compare(&inv, &sheet, a)
}

// misjudge returns a wrong calculation of an invoice. One of its rules has another number, so that the model can derive
// that wrong rule. Without a rule the sum of the goods is wrong.
func (w *World) misjudge(t *worlds.Task) (invoice, worksheet) {
	inv, _ := readInvoice(t.Question)
	right, used := fill(&inv, w.rules)
	deciding := decidingRules(used) // without the steps that have no rule
	if len(deciding) == 0 {
		inv.goods += cents(1 + worlds.Draw(w.Seed, "wrong goods", t.ID)%500)
		return inv, right
	}
	rules := slices.Clone(w.rules)
	r := &rules[deciding[worlds.Draw(w.Seed, "wrong step", t.ID)%uint64(len(deciding))]]
	for try := 0; ; try++ {
		r.number = possibleNumber(steps[r.step].form, worlds.Draw(w.Seed, fmt.Sprint("wrong number ", try), t.ID))
		sheet, _ := fill(&inv, rules)
		if sheet[r.step] != right[r.step] && sheet.total(&inv) != right.total(&inv) {
			return inv, sheet
		}
	}
}

// compare returns the verdict on an attempt. Its feedback names the first wrong step.
func compare(inv *invoice, sheet *worksheet, a worlds.Attempt) worlds.Verdict {
	want := sheet.total(inv).String()
	if a.Answer == want {
		return worlds.Verdict{Score: 1, Feedback: "The answer is right."}
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
	return worlds.Verdict{Feedback: feedback}
}
