package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// reduced is a reducer's reply.
type reduced struct {
	Reasoning string     `json:"reasoning"`
	Decisions []decision `json:"decisions"`
}

type decision struct {
	Keep    int    `json:"keep"`
	Drop    []int  `json:"drop"`
	Content string `json:"content"`
	Reason  string `json:"reason"`
}

// proposal is one line of a reducer's prompt.
type proposal struct {
	Number   int    `json:"proposal"`
	Type     string `json:"type"`
	Bullet   string `json:"bullet_id"`
	Content  string `json:"content"`
	Insights []int  `json:"insights"`
}

// reduce finds proposals about one thing: of those that say the same it keeps the first, and of those that say different
// things the one that rests on the most insights.
func (m *model) reduce(p *prompt) reduced {
	claims := make(map[string][]claim) // by what they are about; from holds the proposals of each
	rests := make(map[int]map[int]bool)
	var order []string
	all := readProposals(p.saidBy(false))
	for _, pr := range attend(m, p, all, func(pr proposal) int { return pr.Number }) {
		if strings.TrimSpace(pr.Content) == "" {
			continue
		}
		c := claim{about: folded(pr.Content), advice: advise("", pr.Content), from: []int{pr.Number}}
		if c.advice.speaks {
			c.about = fmt.Sprint(c.advice.rule.step, c.advice.rule.key)
		}
		rests[pr.Number] = make(map[int]bool)
		for _, n := range pr.Insights {
			rests[pr.Number][n] = true
		}
		if len(claims[c.about]) == 0 {
			order = append(order, c.about)
		}
		same := slices.IndexFunc(claims[c.about], func(d claim) bool { return d.advice.rule == c.advice.rule })
		if same < 0 {
			claims[c.about] = append(claims[c.about], c)
			continue
		}
		first := &claims[c.about][same]
		first.from = append(first.from, pr.Number)
		for n := range rests[pr.Number] {
			rests[first.from[0]][n] = true
		}
	}
	out := reduced{Decisions: []decision{}}
	for _, about := range order {
		group := claims[about]
		slices.SortStableFunc(group, func(a, b claim) int { return len(rests[b.from[0]]) - len(rests[a.from[0]]) })
		d := decision{Keep: group[0].from[0], Drop: slices.Clone(group[0].from[1:]), Reason: "they say the same"}
		for _, other := range group[1:] {
			d.Drop, d.Reason = append(d.Drop, other.from...), "more insights say so"
		}
		if len(d.Drop) > 0 {
			out.Decisions = append(out.Decisions, d)
		}
	}
	out.Reasoning = fmt.Sprintf("%d proposals on %d things.", len(all), len(order))
	return out
}

func readProposals(text string) []proposal {
	var out []proposal
	for line := range strings.Lines(text) {
		var pr proposal
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &pr) == nil && pr.Number > 0 {
			out = append(out, pr)
		}
	}
	return out
}
