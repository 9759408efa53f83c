// Package invoice is a simulated world of an invoice desk. The amount due of an invoice depends on 21 hidden rules, such as
// the discount of gold customers or the tax of region North. The feedback names the first wrong step and its expected
// amount.
//
// The model knows the steps and the forms of rules (vocabulary.go), but no numbers. It computes without mistakes and
// follows the bullets in the prompt. As a Reflector it derives a rule from one expected amount. Decisions of the Curator
// and errors are those of package roles.
package invoice

import (
	"fmt"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/roles"
	"debrief/cmd/internal/worlds/world"
)

// Name is the name of the world.
const Name = "invoice"

// World is the invoice desk of one seed.
type World struct {
	seed      uint64
	rules     []rule
	model     roles.Model
	tasks     roles.Tasks
	stated    roles.Memo[rule]
	questions roles.Memo[invoice]
}

// New returns the world of a seed.
func New(seed uint64, e world.Imperfection) *World {
	w := &World{seed: seed, rules: hidden(seed)}
	w.model = roles.Model{Seed: seed, Errors: e, Language: w}
	return w
}

// Name implements world.World.
func (*World) Name() string { return Name }

// Train implements world.World. There are at most maxTrain tasks.
func (w *World) Train(n int) []world.Task {
	return w.tasks.First(train, min(n, maxTrain), func(n int) []world.Task { return w.write(train, n) })
}

// HeldOut implements world.World. There is one phase, and there are at most maxHeldOut tasks.
func (w *World) HeldOut(_, n int) []world.Task {
	return w.tasks.First(heldOut, min(n, maxHeldOut), func(n int) []world.Task { return w.write(heldOut, n) })
}

// ByHand implements world.World.
func (w *World) ByHand(int) []string {
	out := make([]string, len(w.rules))
	for i, r := range w.rules {
		out[i] = r.Text(world.Draw(w.seed, "by hand", r.Condition()))
	}
	return out
}

// States implements world.World.
func (w *World) States(text string, _, rule int) bool {
	r, ok := w.readRule(text)
	return ok && r == w.rules[rule]
}

// Alter implements world.World.
func (w *World) Alter(_, rule int, draw uint64) string {
	r := w.rules[rule]
	return r.otherNumber(draw).Text(world.Draw(draw, "altered rule", r.Condition()))
}

// readRule is readRule with a cache.
func (w *World) readRule(text string) (rule, bool) {
	return w.stated.Find(text, readRule)
}

// read is readInvoice with a cache.
func (w *World) read(text string) (invoice, bool) {
	return w.questions.Find(text, readInvoice)
}

// Attempt implements world.World.
func (w *World) Attempt(t world.Task, system string) world.Attempt {
	a := w.Answer(t.Question, t.Context, system)
	return world.Attempt{Answer: a.FinalAnswer, Reasoning: a.Reasoning, Cited: a.BulletIDs}
}

// report returns a line "name: amount" for each step.
func report(inv *invoice, sheet *worksheet) string {
	lines := "goods: " + inv.goods.String() + "\n"
	for i, c := range sheet {
		lines += steps[i].name + ": " + c.String() + "\n"
	}
	return lines
}

// Answer implements roles.Language. Of two bullets about one key the model applies the first.
func (w *World) Answer(question, _, system string) prompt.Answer {
	out := prompt.Answer{BulletIDs: []string{}}
	inv, ok := w.read(question)
	if !ok {
		out.Reasoning, out.FinalAnswer = "This is no invoice.", "I do not know."
		return out
	}
	var rules []rule
	var ids []string
	for _, b := range prompt.Bullets(system) {
		if r, ok := w.readRule(b.Text); ok {
			rules, ids = append(rules, r), append(ids, b.ID)
		}
	}
	sheet, used := fill(&inv, rules)
	for i, at := range used {
		about := "For " + condition{i, inv.keys[i]}.phrase()
		switch {
		case at >= 0:
			out.Reasoning += about + " I follow [" + ids[at] + "].\n"
			out.BulletIDs = append(out.BulletIDs, ids[at])
		case inv.keys[i] != "" && inv.keys[i] != steps[i].defaultKey:
			out.Reasoning += about + " the playbook has no rule, so I take nothing.\n"
		}
	}
	out.Reasoning += report(&inv, &sheet)
	out.FinalAnswer = sheet.total(&inv).String()
	return out
}

// Reply implements world.World.
func (w *World) Reply(schema string, messages []world.Message) string {
	return w.model.Reply(schema, messages)
}

// Embed implements world.World.
func (*World) Embed(texts []string) [][]float32 {
	return world.Embed(texts, concepts)
}

// Read implements roles.Language.
func (w *World) Read(text string) (roles.Rule, bool) {
	r, ok := w.readRule(text)
	return r, ok
}

// Platitudes implements world.World.
func (w *World) Platitudes(n int) []string {
	return world.Cross(n, w.seed, 7, platitudeStarts, platitudeEnds)
}

// Nonsense implements world.World.
func (*World) Nonsense(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = nonsense[i%len(nonsense)]
	}
	return out
}

// Distractors implements world.World.
func (w *World) Distractors(n int) []string {
	return world.Distinct(n, func(i int) string {
		d := world.Draw(w.seed, "distractor", fmt.Sprint(i))
		value := onsets[d%20] + codas[d>>8%20]
		return "For " + fmt.Sprintf(fields[d>>16%6], value) + " " + fmt.Sprintf(numbers[d>>24%3], 2+d>>32%17)
	})
}
