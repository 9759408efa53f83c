package procedures

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Language is the knowledge of a model about orders. It has no hidden rule.
type Language struct {
	forgetful bool // lessons leave out the kind of job
}

// NewModel returns a model that knows no hidden rule. The seed selects the prompts with errors.
func NewModel(seed uint64, e worlds.Imperfection) *worlds.Model {
	return &worlds.Model{Seed: seed, Errors: e, Language: Language{forgetful: e.Forgetful}}
}

// Read implements worlds.Language.
func (l Language) Read(text string) (worlds.Rule, bool) {
	r, ok := readRule(text)
	return l.said(r), ok
}

// said returns a rule as the model words it.
func (l Language) said(r rule) worlds.Rule {
	if l.forgetful {
		return forgotten{r}
	}
	return r
}

// Answer implements worlds.Language. The model carries out every bullet that concerns the job, and cites those that apply.
func (Language) Answer(question, _, system string) worlds.Answer {
	j := readJob(question)
	rules, ids := readRules(worlds.ReadBullets(system))
	list, applied := carryOut(&j, rules)
	out := worlds.Answer{BulletIDs: []string{}, FinalAnswer: strings.Join(list, ", ")}
	for _, i := range applied {
		if !slices.Contains(out.BulletIDs, ids[i]) {
			out.BulletIDs = append(out.BulletIDs, ids[i])
		}
	}
	out.Reasoning = fmt.Sprintf("%d bullets say something about this job.", len(out.BulletIDs))
	return out
}

// readRules returns the rules that bullets state, and their ids. Of bullets with the same rule.Condition, the first one counts.
func readRules(bullets []worlds.Bullet) (rules []rule, ids []string) {
	seen := make(map[string]bool)
	for _, b := range bullets {
		r, ok := readRule(b.Text)
		if !ok || seen[r.Condition()] {
			continue
		}
		seen[r.Condition()] = true
		rules, ids = append(rules, r), append(ids, b.ID)
	}
	return rules, ids
}

// Platitudes implements worlds.Language.
func (Language) Platitudes() []string {
	return worlds.Platitudes(7,
		[]string{"Read the whole order", "Keep the bench tidy", "Take your time", "Look at the piece twice", "Keep the client in mind", "Avoid haste", "Work with care"},
		[]string{"before you decide.", "in every situation.", "because quality counts.", "and confirm the result.", "so that errors stay rare.", "whenever you are unsure."})
}

// Features implements worlds.Language: the known words of a text.
func (Language) Features(text string) map[string]float64 {
	out := make(map[string]float64)
	for word := range words(text) {
		if weight := weights[word]; weight > 0 {
			out[word] = weight
		}
	}
	return out
}
