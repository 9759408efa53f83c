package similar

import "slices"

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
