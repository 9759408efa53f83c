package tools

import (
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Language is the knowledge of a model about requests. It has no hidden rule and no fact of the inventory.
type Language struct{}

// NewModel returns a model that knows no hidden rule. The seed selects the prompts with errors.
func NewModel(seed uint64, e worlds.Imperfection) *worlds.Model {
	return &worlds.Model{Seed: seed, Errors: e, Language: Language{}}
}

// Read implements worlds.Language.
func (Language) Read(text string) (worlds.Rule, bool) {
	c, ok := readCase(text)
	return rule{c}, ok
}

// Answer implements worlds.Language. The model knows the facts in the request only, because it cannot call the inventory.
func (Language) Answer(question, _, system string) worlds.Answer {
	p := makePlan(question, readFacts(question), system)
	return worlds.Answer{Reasoning: p.reasoning, BulletIDs: p.cited, FinalAnswer: p.text()}
}

// Platitudes implements worlds.Language.
func (Language) Platitudes() []string {
	return worlds.Platitudes(5,
		[]string{"Read the request twice", "Think before you act", "Plan the work", "Mind the consequences", "Keep an eye on the goal", "Look at the whole system", "Prefer the safe path"},
		[]string{"in all circumstances.", "and check the outcome.", "because incidents are costly.", "as good engineers do.", "when the situation is unclear.", "so that users can rely on us."})
}

// Features implements worlds.World: the subjects of a text, and with less weight its words and noise.
func (Language) Features(text string) map[string]float64 {
	out := make(map[string]float64)
	op := readOperation(text)
	if c, ok := readCase(text); ok {
		op = c.When[operation]
		out["slot "+c.Slot] = 0.6
		out["slot "+c.Slot+" "+c.Value] = 0.3
	}
	if op != "" {
		out["operation "+op] = 1
	}
	for f, v := range readFacts(text) {
		if v != "" {
			out[factNames[f]+" "+v] = 0.8
		}
	}
	for _, w := range anyWord.FindAllString(strings.ToLower(text), -1) {
		out["word "+w] += 0.12
	}
	worlds.AddNoise(out, text)
	return out
}
