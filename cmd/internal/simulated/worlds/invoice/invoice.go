// Package invoice is a simulated world of an invoice desk. The amount due of an invoice depends on 21 hidden rules, such as
// the discount of gold customers or the tax of region North. The feedback names the first wrong step and its expected
// amount.
//
// The model knows the steps and the forms of rules (vocabulary.go), but no numbers. It computes without mistakes and
// follows the bullets in the prompt. As a Reflector it derives a rule from one expected amount. Decisions of the Curator
// and errors are those of world.Model.
package invoice

import (
	"fmt"

	"debrief/cmd/internal/simulated/worlds/world"
)

// Name is the name of the world.
const Name = "invoice"

// World is the invoice desk of one seed.
type World struct {
	Language
	*world.Model
	rules []rule
	tasks world.Tasks
}

// New returns the world of a seed.
func New(seed uint64, e world.Imperfection) *World {
	return &World{Model: NewModel(seed, e), rules: hidden(seed)}
}

// Name implements world.World.
func (*World) Name() string { return Name }

// Train implements world.World. There are at most MaxTrain tasks.
func (w *World) Train(n int) []world.Task {
	return w.tasks.First(train, min(n, MaxTrain), func(n int) []world.Task { return w.write(train, n) })
}

// HeldOut implements world.World. There is one phase, and there are at most MaxHeldOut tasks.
func (w *World) HeldOut(_, n int) []world.Task {
	return w.tasks.First(heldOut, min(n, MaxHeldOut), func(n int) []world.Task { return w.write(heldOut, n) })
}

// ByHand implements world.World.
func (w *World) ByHand(int) []string {
	return world.ByHand(w.Seed, w.rules, func(r rule) world.Rule { return r })
}

// States implements world.World.
func (w *World) States(text string, _, rule int) bool {
	r, ok := readRule(text)
	return ok && r == w.rules[rule]
}

// Distractors implements world.World. The rules are about keys that no invoice has.
func (w *World) Distractors(n int) []string {
	return world.Distinct(n, func(i int) string {
		d := world.Draw(w.Seed, "distractor", fmt.Sprint(i))
		key := onsets[d%20] + codas[(d>>8)%20]
		return "For " + fmt.Sprintf(fields[(d>>16)%6], key) + " " + fmt.Sprintf(numbers[(d>>24)%3], 2+(d>>32)%17)
	})
}
