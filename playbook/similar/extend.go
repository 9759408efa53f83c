package similar

import (
	"slices"
	"strings"

	"debrief/playbook/text"
)

// IsExtension reports whether the text longer says everything that base says. It has all terms of base, in any order and any inflection.
// Before the last of these terms it adds no number and no negation: "wait 20 s in place of 10 s" has all terms of "wait 10 s", but says
// something else.
func IsExtension(base, longer string) bool {
	return Missing(base, longer).Kind == Same && !addsBetween(base, longer, Numbers, Negations)
}

// IsNarrower reports whether the condition longer keeps all terms of base, and adds no negation before the last of them. It may add numbers.
func IsNarrower(base, longer string) bool {
	return Missing(base, longer).Kind == Same && !addsBetween(base, longer, Negations)
}

// limitWords are words that make a number a limit.
var limitWords = text.Set("above below over under least most more less fewer until maximum minimum exceed exceeds exceeding beyond within limit")

// CorrectsLimit reports whether two texts have the same terms in the same order, except for one number, wherever it occurs, and whether they speak of
// a limit. Other numbers, such as codes, versions, years and ranges, tell different rules apart, and so do two numbers: they may be two rows of
// a table of limits and fees.
func CorrectsLimit(before, after string) bool {
	old, corrected := parseTerms(before), parseTerms(after)
	if len(old) != len(corrected) {
		return false
	}
	from, to, isLimit := "", "", false
	for i := range old {
		o, c := &old[i], &corrected[i]
		isLimit = isLimit || limitWords[fold(o.text)]
		isChanged := o.kind == Numbers && c.kind == Numbers && o.text != c.text
		switch {
		case !isChanged && o.stem() == c.stem() && (from == "" || o.text != from):
		case isChanged && (from == "" || o.text == from && c.text == to):
			from, to = o.text, c.text
		default:
			return false
		}
	}
	return isLimit && from != ""
}

// addsBetween reports whether the text longer has a term of the given kinds that base lacks, before its last term that base has too.
func addsBetween(base, longer string, kinds ...Kind) bool {
	missing := map[string]int{} // by stem: the occurrences in base that were not found in longer yet
	for _, t := range parseTerms(base) {
		missing[t.stem()]++
	}
	added := false // since the last common term
	for _, t := range parseTerms(longer) {
		stem := t.stem()
		switch {
		case missing[stem] > 0 && added:
			return true
		case missing[stem] > 0:
			missing[stem]--
		case slices.Contains(kinds, t.kind):
			added = true
		}
	}
	return false
}

// Limits of WithoutCondition.
const (
	repeatedCondition = 0.6 // similarity of two conditions from which on one repeats the other
	maxClause         = 600 // bytes
)

// WithoutCondition returns a text without a clause at its beginning, such as "If the customer is gold,", that repeats a condition in the same
// or in other words. It keeps a clause with a number, a name or a negation that the condition lacks.
func WithoutCondition(condition, s string) string {
	word, rest, _ := strings.Cut(strings.TrimSpace(s), " ")
	if !strings.EqualFold(word, "when") && !strings.EqualFold(word, "if") {
		return s
	}
	without, best := s, repeatedCondition
	for i := range min(len(rest), maxClause) {
		if rest[i] != ',' && rest[i] != ':' {
			continue
		}
		clause, advice := rest[:i], strings.TrimSpace(rest[i+1:])
		lacking := Missing(clause, condition).Kind // a missing word is allowed: the condition may have a synonym
		similarity := Similarity(condition, clause)
		if advice != "" && similarity >= best && (lacking == Same || lacking == Words) {
			without, best = advice, similarity
		}
	}
	return without
}
