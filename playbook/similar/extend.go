package similar

import "debrief/playbook/text"

// IsExtension reports whether a text keeps what another text says, and may add to it. The longer text has all terms of the other one, in any
// order and any form. Before the last of these terms it adds no number and no negation: "wait 20 s in place of 10 s" has all terms of "wait
// 10 s", and says something else.
func IsExtension(of, longer string) bool {
	return Missing(of, longer).Kind == Same && len(addedBetween(of, longer, number, negation)) == 0
}

// IsNarrower reports whether a condition keeps all terms of another one, and adds no negation before the last of them. It may add numbers.
func IsNarrower(of, longer string) bool {
	return Missing(of, longer).Kind == Same && len(addedBetween(of, longer, negation)) == 0
}

// addedBetween returns the terms of the given kinds that only the longer text has, from its beginning to the last term of the other one.
func addedBetween(of, longer string, kinds ...termKind) (added []term) {
	known := map[string]int{} // by stem: how often the first text has it and the longer one has not repeated it yet
	for _, t := range parseTerms(of) {
		known[stemOf(&t)]++
	}
	var found []term
	for _, t := range parseTerms(longer) {
		stem := stemOf(&t)
		if known[stem] > 0 {
			known[stem]--
			added, found = append(added, found...), nil
			continue
		}
		for _, k := range kinds {
			if t.kind == k {
				found = append(found, t)
			}
		}
	}
	return added
}

func stemOf(t *term) string { return text.Stem(fold(t.text)) }
