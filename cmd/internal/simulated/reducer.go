package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// reducerReply is the reply to a reducer's prompt.
type reducerReply struct {
	Reasoning string     `json:"reasoning"`
	Decisions []decision `json:"decisions"`
}

type decision struct {
	Keep    int    `json:"keep"`
	Drop    []int  `json:"drop"`
	Content string `json:"content"`
	Reason  string `json:"reason"`
}

// reducerProposal is one line of a reducer's prompt.
type reducerProposal struct {
	Proposal int    `json:"proposal"`
	Type     string `json:"type"`
	Content  string `json:"content"`
	Insights []int  `json:"insights"`
}

// reduce keeps, of the proposals with the same subject, the one with the most insights.
func (m *model) reduce(p *prompt) reducerReply {
	out := reducerReply{Decisions: []decision{}}
	all := limitAttention(m, p, readProposals(p.textOf(false)), func(pr reducerProposal) int { return pr.Proposal })
	taken := make(map[int]bool)
	slices.SortStableFunc(all, func(a, b reducerProposal) int { return len(b.Insights) - len(a.Insights) })
	for i, best := range all {
		if taken[best.Proposal] || best.Content == "" {
			continue
		}
		c := claim{subject: normalize(best.Content), parsed: parseText("", best.Content)}
		d := decision{Keep: best.Proposal, Reason: "one piece of advice"}
		for _, other := range all[i+1:] {
			if !taken[other.Proposal] && other.Content != "" && c.hasSameSubject(parseText("", other.Content)) {
				taken[other.Proposal] = true
				d.Drop = append(d.Drop, other.Proposal)
			}
		}
		if len(d.Drop) > 0 {
			out.Decisions = append(out.Decisions, d)
		}
	}
	out.Reasoning = fmt.Sprintf("%d proposals, %d of them are duplicates.", len(all), len(taken))
	return out
}

func readProposals(text string) []reducerProposal {
	var out []reducerProposal
	for line := range strings.Lines(text) {
		var in reducerProposal
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &in) == nil && in.Proposal > 0 {
			out = append(out, in)
		}
	}
	return out
}

// refine merges bullets that state the same rule in different words.
func (m *model) refine(p *prompt) curatorReply {
	out := curatorReply{Operations: []operation{}}
	bullets := readBullets(p.textOf(false))
	taken := make(map[string]bool)
	for i, b := range bullets {
		if !b.hasRule || taken[b.id] {
			continue
		}
		op := operation{Type: "MERGE", SourceIDs: []string{b.id}, KeepID: b.id, Content: b.text, Reason: "one rule in other words", Reflections: []int{}}
		for _, other := range bullets[i+1:] {
			if other.hasRule && other.rule == b.rule {
				taken[other.id] = true
				op.SourceIDs = append(op.SourceIDs, other.id)
			}
		}
		if len(op.SourceIDs) > 1 {
			out.Operations = append(out.Operations, op)
		}
	}
	out.Reasoning = fmt.Sprintf("%d bullets, %d of them are duplicates.", len(bullets), len(taken))
	return out
}
