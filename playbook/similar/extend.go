package similar

import (
	"slices"
	"strings"
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

// CorrectsNumber reports whether two texts differ only in one number, wherever it occurs, such as a limit. Texts that differ in two numbers, such as
// two rows of a table of limits and fees, are different rules.
func CorrectsNumber(before, after string) bool {
	removed, ok := onlyNumber(before, after)
	if !ok {
		return false
	}
	added, ok := onlyNumber(after, before)
	return ok && removed != added
}

// onlyNumber returns the number of a text that the other text lacks. It returns false unless this is the only term that the other text lacks.
func onlyNumber(s, other string) (number string, ok bool) {
	known := map[string]bool{} // stems
	for _, t := range parseTerms(other) {
		known[t.stem()] = true
	}
	for _, t := range parseTerms(s) {
		switch {
		case known[t.stem()]:
		case t.kind != Numbers || number != "" && number != t.text:
			return "", false
		default:
			number = t.text
		}
	}
	return number, number != ""
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
