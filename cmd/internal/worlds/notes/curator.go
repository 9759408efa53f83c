package notes

import (
	"fmt"
	"slices"

	"debrief/cmd/internal/worlds/prompt"
)

// claim is a statement that one or more insights make.
type claim struct {
	statement
	section  string
	insights []int
}

// curate compares insights with bullets. It adds a new rule, confirms a bullet with the same meaning, and updates a bullet
// with the same conditions and another account. Of contradicting insights it uses the one that most insights make.
func (m *model) curate(s *source, c prompt.Curation) prompt.Curated {
	out := prompt.Curated{Operations: []prompt.Operation{}}
	if s.chance(m.e.Idle, "idle") {
		out.Reasoning = "The playbook says enough."
		return out
	}
	bullets := make([]statement, len(c.Bullets))
	for i, b := range c.Bullets {
		bullets[i] = m.read(b.ID, b.Text)
	}
	var done []claim
	for _, cl := range m.group(c.Insights) {
		if slices.ContainsFunc(done, func(d claim) bool { return d.hasRule && cl.hasRule && d.rule.sameConditions(&cl.rule) }) {
			continue
		}
		done = append(done, cl)
		out.Operations = append(out.Operations, m.decide(s, cl, bullets))
	}
	out.Reasoning = fmt.Sprintf("%d bullets, %d insights, %d operations.", len(bullets), len(c.Insights), len(out.Operations))
	return out
}

// group groups insights by claim: the claims of most insights first, then in the order of the prompt.
func (m *model) group(insights []prompt.Insight) []claim {
	var claims []claim
	for _, in := range insights {
		for _, text := range in.Texts() {
			st := m.read("", text)
			i := slices.IndexFunc(claims, func(c claim) bool { return sameClaim(&c.statement, &st) })
			if i < 0 {
				claims = append(claims, claim{statement: st, section: in.Section})
				i = len(claims) - 1
			}
			if !slices.Contains(claims[i].insights, in.Number) {
				claims[i].insights = append(claims[i].insights, in.Number)
			}
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int { return len(b.insights) - len(a.insights) })
	return claims
}

func sameClaim(a, b *statement) bool {
	if a.hasRule != b.hasRule {
		return false
	}
	if !a.hasRule {
		return normalize(a.text) == normalize(b.text)
	}
	return a.rule.account == b.rule.account && a.rule.over == b.rule.over && a.rule.sameConditions(&b.rule)
}

// decide returns the operation for one claim.
func (m *model) decide(s *source, c claim, bullets []statement) prompt.Operation {
	text := c.text
	if c.hasRule && s.chance(m.e.Paraphrase, "paraphrase "+c.text) {
		text = phrasing{s: draws(s.seed, s.text+c.text), varying: true}.state(&c.rule, sentences)
	}
	section := c.section
	if section == "" && c.hasRule {
		section = sectionOf(&c.rule)
	} else if section == "" {
		section = "general"
	}
	op := prompt.Operation{Type: "ADD", SourceIDs: []string{}, Section: section, Content: text, Reflections: c.insights}
	i, isSame := counterpart(&c.statement, bullets)
	switch {
	case i < 0 || isSame && s.chance(m.e.Duplicate, "duplicate "+c.text):
		return op
	case isSame:
		op = prompt.Operation{Type: "SAME", BulletID: bullets[i].id, SourceIDs: []string{}, Reflections: c.insights}
	default:
		op.Type, op.BulletID, op.Section, op.Reason = "UPDATE", bullets[i].id, "", "newer results contradict it"
	}
	if s.chance(m.e.UnknownID, "unknown id "+c.text) {
		op.BulletID = "rule-99999"
	}
	return op
}

// counterpart returns the index of the bullet that a claim confirms or corrects, or -1. isSame is false for a correction.
func counterpart(c *statement, bullets []statement) (i int, isSame bool) {
	if !c.hasRule {
		i = slices.IndexFunc(bullets, func(b statement) bool { return normalize(b.text) == normalize(c.text) })
		return i, i >= 0
	}
	r := &c.rule
	if i = slices.IndexFunc(bullets, func(b statement) bool { return sameClaim(&b, c) }); i >= 0 {
		return i, true
	}
	same := slices.IndexFunc(bullets, func(b statement) bool { return b.hasRule && b.rule.sameConditions(r) })
	if same >= 0 {
		b := &bullets[same].rule
		switch {
		case b.account != r.account && b.over == r.over, b.account == r.account && r.over < b.over:
			return same, false
		case b.account == r.account:
			return same, true
		}
		return -1, false // another account above another amount is another rule
	}
	// A more general bullet with the same account says enough, unless another bullet comes between them.
	for i := range bullets {
		b := &bullets[i]
		if b.hasRule && b.rule.account == r.account && b.rule.covers(r) && !slices.ContainsFunc(bullets, func(o statement) bool {
			return o.hasRule && o.rule.account != r.account && o.rule.covers(r) && o.rule.specificity() >= b.rule.specificity()
		}) {
			return i, true
		}
	}
	return -1, false
}

// reduce keeps, of the proposals with the same conditions, the one with the most insights.
func (m *model) reduce(all []prompt.Proposal) prompt.Reduction {
	out := prompt.Reduction{Decisions: []prompt.Decision{}}
	slices.SortStableFunc(all, func(a, b prompt.Proposal) int { return len(b.Insights) - len(a.Insights) })
	taken := make(map[int]bool)
	for i, keep := range all {
		if taken[keep.Proposal] || keep.Content == "" {
			continue
		}
		mine := m.read("", keep.Content)
		d := prompt.Decision{Keep: keep.Proposal, Reason: "the same conditions"}
		for _, other := range all[i+1:] {
			theirs := m.read("", other.Content)
			isRival := mine.hasRule && theirs.hasRule && mine.rule.sameConditions(&theirs.rule)
			if !taken[other.Proposal] && other.Content != "" && (isRival || sameClaim(&mine, &theirs)) {
				taken[other.Proposal] = true
				d.Drop = append(d.Drop, other.Proposal)
			}
		}
		if len(d.Drop) > 0 {
			out.Decisions = append(out.Decisions, d)
		}
	}
	out.Reasoning = fmt.Sprintf("%d proposals, %d of them repeat another.", len(all), len(taken))
	return out
}

// refine merges bullets with the same meaning.
func (m *model) refine(all []prompt.Bullet) prompt.Curated {
	out := prompt.Curated{Operations: []prompt.Operation{}}
	taken := make(map[string]bool)
	for i, b := range all {
		mine := m.read(b.ID, b.Text)
		if taken[b.ID] {
			continue
		}
		op := prompt.Operation{Type: "MERGE", SourceIDs: []string{b.ID}, KeepID: b.ID, Content: b.Text, Reason: "one meaning in other words", Reflections: []int{}}
		for _, o := range all[i+1:] {
			if theirs := m.read(o.ID, o.Text); !taken[o.ID] && sameClaim(&mine, &theirs) {
				taken[o.ID] = true
				op.SourceIDs = append(op.SourceIDs, o.ID)
			}
		}
		if len(op.SourceIDs) > 1 {
			out.Operations = append(out.Operations, op)
		}
	}
	out.Reasoning = fmt.Sprintf("%d bullets, %d of them repeat another.", len(all), len(taken))
	return out
}
