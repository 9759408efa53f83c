package events

import "fmt"

// PartTotals sums up the parts of one kind in a context.
type PartTotals struct {
	Kind                   PartKind
	Included, Tokens       int
	Omitted, OmittedTokens int
	Reasons                []string // such as "3 over the limit", "1 truncated"
}

// partKinds are the kinds of parts, in the order of Totals.
var partKinds = []PartKind{
	PartSystem, PartBullet, PartUser, PartAnswer, PartTools, PartSummary, PartRecall, PartReflection, PartRecord, PartRecovery,
	PartContext, PartPreviousRound, PartQuery,
}

// Totals returns the totals of each kind that has parts in the context or omitted ones.
func (m *Manifest) Totals() (all []PartTotals) {
	for _, kind := range partKinds {
		t := PartTotals{Kind: kind}
		truncated := 0
		for _, p := range m.Parts {
			if p.Kind == kind {
				t.Included += max(p.Count, 1)
				t.Tokens += p.Tokens
				if p.Keep > 0 {
					truncated++
				}
			}
		}
		for _, o := range m.Omitted {
			if o.Kind == kind {
				t.Omitted += o.Count
				t.OmittedTokens += o.Tokens
				t.Reasons = append(t.Reasons, fmt.Sprintf("%d %s", o.Count, o.Why))
			}
		}
		if truncated > 0 {
			t.Reasons = append(t.Reasons, fmt.Sprintf("%d truncated", truncated))
		}
		if t.Included+t.Omitted > 0 {
			all = append(all, t)
		}
	}
	return all
}
