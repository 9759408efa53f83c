package worlds

import (
	"fmt"
	"slices"
	"strings"
)

// claim is one statement of one or more insights.
type claim struct {
	text     string
	section  string
	rule     Rule     // nil if the text states no rule
	insights []int    // numbers of the insights
	withheld []string // ids of the bullets that were withheld from a run behind it
}

// meaning identifies the statement.
func (c *claim) meaning() string {
	if c.rule != nil {
		return c.rule.Meaning()
	}
	return normalize(c.text)
}

// read returns a text as a claim.
func (m *Model) read(text, section string) claim {
	c := claim{text: text, section: section}
	if r, ok := m.Language.Read(text); ok {
		c.rule = r
		if section == "" {
			c.section = r.Section()
		}
	}
	if c.section == "" {
		c.section = "general"
	}
	return c
}

// curate proposes one operation for each claim, and merges bullets that state one rule.
func (m *Model) curate(in Curation, d Dice) Curated {
	out := Curated{Operations: []Operation{}}
	if d.Chance(m.Errors.Idle, "idle") {
		out.Reasoning = "The playbook needs no change."
		return out
	}
	bullets := m.readBullets(in.Bullets)
	rejected := make(map[string]bool) // meanings
	for _, text := range in.Rejected {
		c := m.read(text, "")
		rejected[c.meaning()] = true
	}
	for i, c := range m.claims(in.Insights) {
		dice := Dice(d.Draw(fmt.Sprintf("claim %d", i)))
		op := m.propose(&c, bullets, dice)
		if op.Type == "ADD" && rejected[c.meaning()] && findSame(bullets, &c) < 0 {
			continue
		}
		op.SourceIDs, op.Reflections = []string{}, c.insights
		if op.Type != "SAME" {
			op.When = when(c.rule, in.AsksWhen)
		}
		out.Operations = append(out.Operations, op)
	}
	// An updated bullet has another meaning after this reply, so it is not merged.
	bullets = slices.DeleteFunc(bullets, func(b statedBullet) bool {
		return slices.ContainsFunc(out.Operations, func(op Operation) bool { return op.Type == "UPDATE" && op.BulletID == b.id })
	})
	out.Operations = append(out.Operations, merges(bullets, in.AsksWhen)...)
	out.Reasoning = fmt.Sprintf("%d bullets, %d insights, %d changes.", len(bullets), len(in.Insights), len(out.Operations))
	return out
}

// propose returns the operation for a claim, without its condition and reflections.
func (m *Model) propose(c *claim, bullets []statedBullet, dice Dice) Operation {
	same, contradicting := findSame(bullets, c), -1
	if c.rule != nil && same < 0 {
		contradicting = slices.IndexFunc(bullets, func(b statedBullet) bool { return b.rule != nil && b.rule.Condition() == c.rule.Condition() })
	}
	isDuplicate := same >= 0 && dice.Chance(m.Errors.Duplicate, "duplicate") // an error of the model
	op := Operation{Type: "ADD", Section: c.section, Content: c.text}
	switch {
	case same >= 0 && !isDuplicate:
		op = Operation{Type: "SAME", BulletID: bullets[same].id}
	case contradicting >= 0:
		op.Type, op.BulletID, op.Reason = "UPDATE", bullets[contradicting].id, "the results contradict the bullet"
	}
	if op.Type != "SAME" && c.rule != nil {
		if w := m.wording(dice, "content"); w != 0 || isDuplicate {
			op.Content = c.rule.Text(w)
		}
	}
	if op.BulletID != "" && dice.Chance(m.Errors.UnknownID, "unknown id") {
		op.BulletID = unknownID(dice)
	}
	return op
}

// findSame returns the index of the bullet with the meaning of a claim. Without one, it returns the index of a bullet with the same advice for
// another case, if this bullet was withheld from a run behind the claim. Else it returns -1.
func findSame(bullets []statedBullet, c *claim) int {
	same := slices.IndexFunc(bullets, func(b statedBullet) bool { return b.meaning() == c.meaning() })
	if same >= 0 {
		return same
	}
	return slices.IndexFunc(bullets, func(b statedBullet) bool { return slices.Contains(c.withheld, b.id) && advisesSame(b.rule, c.rule) })
}

// claims groups insights by their meaning. Of claims that contradict each other it returns the one with the most insights, and of
// several with as many the last.
func (m *Model) claims(insights []Insight) []claim {
	var all []claim
	for i := range insights {
		in := &insights[i]
		for _, text := range in.Texts() {
			c := m.read(text, in.Section)
			k := slices.IndexFunc(all, func(o claim) bool { return o.meaning() == c.meaning() })
			if k < 0 {
				all = append(all, c)
				k = len(all) - 1
			}
			if !slices.Contains(all[k].insights, in.Number) {
				all[k].insights = append(all[k].insights, in.Number)
				all[k].withheld = append(all[k].withheld, in.Withheld...)
			}
		}
	}
	strongest := make(map[string]int) // by condition
	for i, c := range all {
		if c.rule == nil {
			continue
		}
		key := c.rule.Condition()
		if best, ok := strongest[key]; !ok || len(c.insights) >= len(all[best].insights) {
			strongest[key] = i
		}
	}
	var out []claim
	for i, c := range all {
		if c.rule == nil || strongest[c.rule.Condition()] == i {
			out = append(out, c)
		}
	}
	return out
}

// adviser is a Rule that can be compared apart from its condition.
type adviser interface {
	// Advice identifies what the rule says to do, without the case that it decides.
	Advice() string
}

// advisesSame reports whether two rules say the same for different cases.
func advisesSame(a, b Rule) bool {
	x, ok := a.(adviser)
	y, bothOK := b.(adviser)
	return ok && bothOK && x.Advice() == y.Advice()
}

// statedBullet is a bullet with its meaning.
type statedBullet struct {
	claim
	id string
}

func (m *Model) readBullets(all []Bullet) []statedBullet {
	out := make([]statedBullet, len(all))
	for i, b := range all {
		out[i] = statedBullet{m.read(b.Text, ""), b.ID}
	}
	return out
}

// merges returns one operation for each group of bullets that state one rule.
func merges(bullets []statedBullet, asksWhen bool) []Operation {
	out := []Operation{}
	taken := make(map[string]bool)
	for i, b := range bullets {
		if b.rule == nil || taken[b.id] {
			continue
		}
		op := Operation{
			Type: "MERGE", SourceIDs: []string{b.id}, KeepID: b.id, When: when(b.rule, asksWhen), Content: b.text,
			Reason: "the bullets state one rule", Reflections: []int{},
		}
		for _, other := range bullets[i+1:] {
			if other.rule != nil && !taken[other.id] && other.meaning() == b.meaning() {
				taken[other.id] = true
				op.SourceIDs = append(op.SourceIDs, other.id)
			}
		}
		if len(op.SourceIDs) > 1 {
			out = append(out, op)
		}
	}
	return out
}

// refine merges the bullets that state one rule.
func (m *Model) refine(in Curation) Curated {
	out := Curated{Operations: merges(m.readBullets(in.Bullets), in.AsksWhen)}
	out.Reasoning = fmt.Sprintf("%d bullets, %d groups of duplicates.", len(in.Bullets), len(out.Operations))
	return out
}

// reduce keeps, of the proposals about one condition, the one with the most insights.
func (m *Model) reduce(all []Proposal) Reduction {
	out := Reduction{Decisions: []Decision{}}
	slices.SortStableFunc(all, func(a, b Proposal) int { return len(b.Insights) - len(a.Insights) })
	key := func(p Proposal) string {
		if c := m.read(p.Content, ""); c.rule != nil {
			return c.rule.Condition()
		}
		return normalize(p.Content)
	}
	kept := make(map[string]int) // index of the decision
	for _, p := range all {
		if p.Content == "" {
			continue
		}
		k := key(p)
		if i, ok := kept[k]; ok {
			out.Decisions[i].Drop = append(out.Decisions[i].Drop, p.Proposal)
			continue
		}
		kept[k] = len(out.Decisions)
		out.Decisions = append(out.Decisions, Decision{Keep: p.Proposal, Drop: []int{}, Reason: "the proposals state one rule"})
	}
	out.Decisions = slices.DeleteFunc(out.Decisions, func(d Decision) bool { return len(d.Drop) == 0 })
	out.Reasoning = fmt.Sprintf("%d proposals, %d groups of duplicates.", len(all), len(out.Decisions))
	return out
}

// normalize removes case, extra spaces and final punctuation, to compare texts.
func normalize(s string) string {
	return strings.Trim(strings.Join(strings.Fields(strings.ToLower(s)), " "), ".!")
}
