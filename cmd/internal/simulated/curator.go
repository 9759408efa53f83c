package simulated

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// curatorReply is the reply to a curator's or refiner's prompt.
type curatorReply struct {
	Reasoning  string      `json:"reasoning"`
	Operations []operation `json:"operations"`
}

type operation struct {
	Type        string   `json:"type"`
	BulletID    string   `json:"bullet_id"`
	SourceIDs   []string `json:"source_ids"`
	KeepID      string   `json:"keep_id"`
	Section     string   `json:"section"`
	Content     string   `json:"content"`
	Reason      string   `json:"reason"`
	Reflections []int    `json:"reflections"`
}

// claim is a statement that one or more insights make.
type claim struct {
	subject  string // the step and key of a rule, or the normalized text
	text     string
	section  string
	parsed   parsedText
	insights []int // numbers of the insights
}

// curate compares claims with bullets. It adds a new claim, confirms a bullet that states the claim, and updates a
// bullet that states another rule for the same key. Of contradicting claims it uses the one with the most insights.
func (m *model) curate(p *prompt) curatorReply {
	said := p.textOf(false)
	bullets := readBullets(said)
	claims := groupInsights(limitAttention(m, p, readInsights(said), func(in insight) int { return in.Number }))
	slices.SortStableFunc(claims, func(a, b claim) int { return len(b.insights) - len(a.insights) })

	out := curatorReply{Operations: []operation{}}
	decided := make(map[string]bool)
	for _, c := range claims {
		if decided[c.subject] {
			continue
		}
		decided[c.subject] = true
		op := operation{SourceIDs: []string{}, Content: c.text, Section: c.section, Reflections: c.insights}
		i := slices.IndexFunc(bullets, c.hasSameSubject)
		if same := slices.IndexFunc(bullets, c.isStatedBy); same >= 0 {
			i = same
		}
		switch {
		case i < 0:
			op.Type = "ADD"
		case c.isStatedBy(bullets[i]):
			op = operation{Type: "SAME", BulletID: bullets[i].id, SourceIDs: []string{}, Reflections: c.insights}
		default:
			op.Type, op.BulletID, op.Reason = "UPDATE", bullets[i].id, "the results say otherwise"
		}
		out.Operations = append(out.Operations, op)
	}
	out.Reasoning = fmt.Sprintf("%d bullets, %d claims, %d of them lead to a change.", len(bullets), len(claims), len(out.Operations))
	return out
}

// limitAttention returns the part of a list that the model reads: MaxInsights elements, chosen by a hash.
func limitAttention[T any](m *model, p *prompt, all []T, number func(T) int) []T {
	if m.MaxInsights <= 0 || len(all) <= m.MaxInsights {
		return all
	}
	rank := make(map[int]uint64, len(all))
	for _, v := range all {
		rank[number(v)] = p.draw(fmt.Sprint("attention ", number(v)))
	}
	kept := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(rank[number(a)], rank[number(b)]) })[:m.MaxInsights]
	slices.SortFunc(kept, func(a, b T) int { return number(a) - number(b) })
	return kept
}

// groupInsights groups insights by claim, in the order of the first insight of each claim.
func groupInsights(all []insight) []claim {
	var claims []claim
	for _, in := range all {
		for _, text := range append([]string{in.Insight}, in.Also...) {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			c := claim{subject: normalize(text), text: text, section: in.Section, parsed: parseText("", text)}
			if c.section == "" {
				c.section = "desk rules"
			}
			if c.parsed.hasRule {
				c.subject = fmt.Sprint(c.parsed.rule.step, c.parsed.rule.key)
				c.section = steps[c.parsed.rule.step].name
			}
			i := slices.IndexFunc(claims, func(d claim) bool {
				return d.subject == c.subject && d.parsed.hasRule == c.parsed.hasRule && d.parsed.rule == c.parsed.rule
			})
			if i < 0 {
				claims = append(claims, c)
				i = len(claims) - 1
			}
			if !slices.Contains(claims[i].insights, in.Number) {
				claims[i].insights = append(claims[i].insights, in.Number)
			}
		}
	}
	return claims
}

// hasSameSubject reports whether the bullet and the claim have the same subject.
func (c claim) hasSameSubject(b parsedText) bool {
	if c.parsed.hasRule {
		return b.hasRule && b.rule.step == c.parsed.rule.step && b.rule.key == c.parsed.rule.key
	}
	return normalize(b.text) == c.subject
}

// isStatedBy reports whether the bullet states the claim.
func (c claim) isStatedBy(b parsedText) bool {
	return c.hasSameSubject(b) && (!c.parsed.hasRule || b.rule == c.parsed.rule)
}

// normalize removes case, extra spaces and final punctuation, to compare texts.
func normalize(s string) string {
	return strings.Trim(strings.Join(strings.Fields(strings.ToLower(s)), " "), ".!")
}
