package notes

import (
	"fmt"
	"slices"

	"debrief/cmd/internal/worlds/world"
)

var platitudes = []string{
	"Read the whole text carefully before you decide on a number.",
	"Double-check the result before you hand it in.",
	"Consider the context of every claim and think step by step.",
	"When in doubt, look at the details again and stay consistent.",
	"Pay attention to names and sums, because both can matter.",
	"Make sure that the choice follows the rules of the firm.",
	"Be precise: a wrong number causes extra effort for the accountants.",
	"Compare similar claims and treat equal matters equally.",
	"Always give exactly one number, without any further words.",
	"Think about the purpose of the money that was spent.",
	"Check for ambiguous words and resolve them before you answer.",
	"Learn from earlier mistakes and do not repeat them.",
}

var nonsense = []string{
	"Rides on a dragon at dawn go to account %d.",
	"Enter moonlight that was bought by the metre on account %d.",
	"If a wizard signs in violet ink, choose account %d.",
	"Time machines with a cracked dial belong on account %d.",
	"Account %d is reserved for songs that rhyme with orange.",
	"For zeppelins that sleep indoors the accountants expect the number %d.",
	"Post echoes from the valley to account %d.",
	"Whoever feeds the unicorn enters %d as the account.",
}

// Platitudes implements world.World.
func (w *World) Platitudes(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = platitudes[i%len(platitudes)]
	}
	return out
}

// Nonsense implements world.World.
func (w *World) Nonsense(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(nonsense[i%len(nonsense)], 4001+world.Draw(w.seed, "nonsense", fmt.Sprint(i))%2999)
	}
	return out
}

// Distractors implements world.World. Each rule names a kind of expense or a private name that no note contains.
func (w *World) Distractors(n int) []string {
	v := language()
	var unused []string
	for _, c := range v.byClass[name] {
		if !slices.Contains(w.ledger.names, c.id) {
			unused = append(unused, c.id)
		}
	}
	return world.Distinct(n, func(i int) string {
		s := draws(w.seed, fmt.Sprint("distractor ", i))
		r := rule{account: fmt.Sprint(4001 + s.number(2999, "account"))}
		if s.chance(0.5, "foreign") {
			r.concepts = []string{pick(s, v.byClass[foreign], "kind").id}
			if s.chance(0.8, "foreign name") {
				r.concepts = append(r.concepts, pick(s, unused, "name"))
			}
		} else {
			r.concepts = []string{pick(s, w.ledger.kinds, "kind"), pick(s, unused, "name")}
		}
		if s.chance(0.5, "circumstance") {
			r.concepts = append(r.concepts, pick(s, v.byClass[condition], "which circumstance").id)
		}
		if s.chance(0.2, "amount") {
			r.over = pick(s, thresholds, "which amount")
		}
		slices.Sort(r.concepts)
		return phrasing{s: s, varying: true}.state(&r, append(slices.Clone(sentences), handSentences...))
	})
}
