// Package notes is a simulated world of expense notes. A note is free text in the words of an employee: synonyms, several
// languages, abbreviations, typing errors, and private names of the company. Each note belongs to one of about 40 ledger
// accounts.
//
// # The rules
//
// 60 hidden rules decide the account: a kind of expense, with exceptions for circumstances, names and amounts. The more
// specific rule wins, and three rules win against all others. The rules and their frequencies come from the seed. The most
// frequent rule decides about 6 % of the notes, the rarest about 0.3 %.
//
// # The model
//
// The model knows the language (vocabulary.go): which phrases mean the same, and which words are names. It knows no rule. It
// follows the bullets in the prompt, the most specific first. As a Reflector it knows the right account from the feedback,
// but one note does not determine the condition of the rule, so it guesses one. As a Curator it compares conditions.
//
// ledger.go and tasks.go contain the hidden rules. No file of the model uses them; a test checks this.
package notes

import (
	"fmt"
	"slices"
	"sync"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/world"
)

// Name is the name of the world.
const Name = "notes"

// World implements world.World.
type World struct {
	model
	ledger  *ledger
	mu      sync.Mutex
	train   taskList
	heldOut taskList
}

var _ world.World = (*World)(nil)

// model answers prompts. It has no access to the hidden rules.
type model struct {
	seed uint64
	e    world.Imperfection
	// rules caches statements by text. It grows with the number of different bullets and insights.
	rules *sync.Map
}

// New returns the world of a seed.
func New(seed uint64, e world.Imperfection) *World {
	return &World{
		model:  model{seed: seed, e: e, rules: new(sync.Map)},
		ledger: newLedger(seed),
		train:  taskList{kind: "train"}, heldOut: taskList{kind: "held-out", isHeldOut: true},
	}
}

// Name implements world.World.
func (*World) Name() string { return Name }

// Train implements world.World.
func (w *World) Train(n int) []world.Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.train.first(n, w.ledger)
}

// HeldOut implements world.World. The rules have one phase.
func (w *World) HeldOut(_, n int) []world.Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heldOut.first(n, w.ledger)
}

// ByHand implements world.World. The rules have one phase.
func (w *World) ByHand(int) []string { return w.ledger.byHand() }

// States implements world.World. The rules have one phase.
func (w *World) States(bullet string, _, rule int) bool {
	s, r := w.read("", bullet), &w.ledger.rules[rule]
	return s.hasRule && s.rule.account == r.account && s.rule.over == r.over && s.rule.sameConditions(r)
}

// Alter implements world.World. The rules have one phase.
func (w *World) Alter(_, rule int, draw uint64) string {
	s, r := draws(w.seed, fmt.Sprintf("alter %d %d", rule, draw)), w.ledger.rules[rule]
	others := slices.DeleteFunc(w.ledger.accounts(), func(a string) bool { return a == r.account })
	r.account = pick(s, others, "account")
	return phrasing{s: s, varying: true}.state(&r, sentences)
}

// Attempt implements world.World.
func (w *World) Attempt(t world.Task, system string) world.Attempt {
	a := w.answer(t.Question, prompt.Bullets(system))
	return world.Attempt{Answer: a.FinalAnswer, Reasoning: a.Reasoning, Cited: a.BulletIDs}
}

// Reply implements world.World.
func (w *World) Reply(schema string, messages []world.Message) string {
	return w.reply(schema, messages)
}

func (m *model) reply(schema string, messages []world.Message) string {
	s := draws(m.seed, prompt.Text(messages))
	var out any
	switch schema {
	case "generator":
		question, _ := prompt.Task(messages)
		return prompt.JSON(m.answer(question, prompt.Bullets(prompt.System(messages))))
	case "reflector":
		out = m.reflect(s, prompt.ReadExecution(messages))
	case "curator":
		out = m.curate(s, prompt.ReadCuration(messages))
	case "reducer":
		out = m.reduce(prompt.Proposals(messages))
	case "refiner":
		out = m.refine(prompt.ReadCuration(messages).Bullets)
	case "summary":
		return prompt.Summarise(messages)
	default:
		return "I read expense notes and nothing else."
	}
	text := prompt.JSON(out)
	if s.chance(m.e.BrokenJSON, "broken") {
		return prompt.Break(text, uint64(s.number(1000, "how broken")))
	}
	return text
}
