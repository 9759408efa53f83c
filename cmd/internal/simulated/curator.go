package simulated

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// curated is a curator's reply.
type curated struct {
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

// claim is what insights say about one thing.
type claim struct {
	about   string // the step and key of a rule, or the words of a text that is none
	text    string
	section string
	advice  advice
	from    []int
}

// curate compares insights with bullets: what is new it adds, a bullet that states another rule for the same key it
// rewrites, and of what is there already it says so. Where insights contradict each other, the claim of the most counts.
func (m *model) curate(p *prompt) curated {
	said := p.saidBy(false)
	bullets := readBullets(said)
	claims := gather(attend(m, p, readInsights(said), func(in insight) int { return in.Number }))
	slices.SortStableFunc(claims, func(a, b claim) int { return len(b.from) - len(a.from) })

	out := curated{Operations: []operation{}}
	decided := make(map[string]bool)
	for _, c := range claims {
		if decided[c.about] {
			continue
		}
		decided[c.about] = true
		op := operation{SourceIDs: []string{}, Content: c.text, Section: c.section, Reflections: c.from}
		i := slices.IndexFunc(bullets, c.sameSubject)
		if same := slices.IndexFunc(bullets, c.same); same >= 0 {
			i = same
		}
		switch {
		case i < 0:
			op.Type = "ADD"
		case c.same(bullets[i]):
			op = operation{Type: "SAME", BulletID: bullets[i].id, SourceIDs: []string{}, Reflections: c.from}
		default:
			op.Type, op.BulletID, op.Reason = "UPDATE", bullets[i].id, "the results say otherwise"
		}
		out.Operations = append(out.Operations, op)
	}
	out.Reasoning = fmt.Sprintf("%d bullets, %d claims, %d of them lead to a change.", len(bullets), len(claims), len(out.Operations))
	return out
}

// attend is what a model takes in of a long list.
func attend[T any](m *model, p *prompt, all []T, number func(T) int) []T {
	if m.Attention <= 0 || len(all) <= m.Attention {
		return all
	}
	rank := make(map[int]uint64, len(all))
	for _, v := range all {
		rank[number(v)] = p.draw(fmt.Sprint("attention ", number(v)))
	}
	kept := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(rank[number(a)], rank[number(b)]) })[:m.Attention]
	slices.SortFunc(kept, func(a, b T) int { return number(a) - number(b) })
	return kept
}

// gather sorts insights into claims, in the order in which they are first made.
func gather(insights []insight) []claim {
	var claims []claim
	for _, in := range insights {
		for _, text := range append([]string{in.Insight}, in.Also...) {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			c := claim{about: folded(text), text: text, section: in.Section, advice: advise("", text)}
			if c.section == "" {
				c.section = "desk rules"
			}
			if c.advice.speaks {
				c.about = fmt.Sprint(c.advice.rule.step, c.advice.rule.key)
				c.section = steps[c.advice.rule.step].name
			}
			i := slices.IndexFunc(claims, func(d claim) bool {
				return d.about == c.about && d.advice.speaks == c.advice.speaks && d.advice.rule == c.advice.rule
			})
			if i < 0 {
				claims = append(claims, c)
				i = len(claims) - 1
			}
			if !slices.Contains(claims[i].from, in.Number) {
				claims[i].from = append(claims[i].from, in.Number)
			}
		}
	}
	return claims
}

// sameSubject reports whether a bullet is about what the claim is about.
func (c claim) sameSubject(b advice) bool {
	if c.advice.speaks {
		return b.speaks && b.rule.step == c.advice.rule.step && b.rule.key == c.advice.rule.key
	}
	return folded(b.text) == c.about
}

// same reports whether a bullet says what the claim says.
func (c claim) same(b advice) bool {
	return c.sameSubject(b) && (!c.advice.speaks || b.rule == c.advice.rule)
}

// folded is a text without case, spacing and punctuation at its end, to tell repetitions.
func folded(s string) string {
	return strings.Trim(strings.Join(strings.Fields(strings.ToLower(s)), " "), ".!")
}
