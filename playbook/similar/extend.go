package similar

import (
	"slices"
	"strings"
)

// IsExtension reports whether the longer text says everything that the text of says. It has all terms of that text, in any order and any
// inflection. Before the last of these terms it adds no number and no negation: "wait 20 s in place of 10 s" has all terms of "wait 10 s", but
// says something else.
func IsExtension(of, longer string) bool {
	return Missing(of, longer).Kind == Same && len(addedBetween(of, longer, Numbers, Negations)) == 0
}

// IsNarrower reports whether a condition keeps all terms of another one, and adds no negation before the last of them. It may add numbers.
func IsNarrower(of, longer string) bool {
	return Missing(of, longer).Kind == Same && len(addedBetween(of, longer, Negations)) == 0
}

// addedBetween returns the terms that only the longer text has, of the given kinds, and before its last term that the text of has too.
func addedBetween(of, longer string, kinds ...Kind) (added []term) {
	missing := map[string]int{} // by stem: the occurrences in the text of that were not found in the longer text yet
	for _, t := range parseTerms(of) {
		missing[t.stem()]++
	}
	var found []term // since the last common term
	for _, t := range parseTerms(longer) {
		stem := t.stem()
		switch {
		case missing[stem] > 0:
			missing[stem]--
			added, found = append(added, found...), nil
		case slices.Contains(kinds, t.kind):
			found = append(found, t)
		}
	}
	return added
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
		lacking := Missing(clause, condition).Kind // perhaps a word with a synonym in the condition
		similarity := Similarity(condition, clause)
		if advice != "" && similarity >= best && (lacking == Same || lacking == Words) {
			without, best = advice, similarity
		}
	}
	return without
}
