package procedures

import (
	"slices"
	"strings"
)

// flaw is the first flaw of an answer.
type flaw struct {
	kind        flawKind
	step, other string
}

type flawKind string

const (
	unchecked flawKind = "unchecked" // the check step is not first
	needless  flawKind = "needless"  // step has no place in the list
	missing   flawKind = "missing"   // step must come after other, or first without one
	instead   flawKind = "instead"   // step stands where other must be
	early     flawKind = "early"     // step must come before other
)

var flawKinds = []flawKind{unchecked, needless, missing, instead, early}

var flawWordings = map[flawKind][]template{
	unchecked: newTemplates("The check '{step}' had to come first{when}.", "Where was the check '{step}', before all else{when}?"),
	needless:  newTemplates("The step '{step}' had no place here{when}.", "Nobody needed '{step}'{when}."),
	missing:   newTemplates("After '{other}' I missed '{step}'{when}.", "Behind '{other}' the step '{step}' was due{when}.", "At the beginning I missed '{step}'{when}."),
	instead:   newTemplates("You did '{step}' where '{other}' was due{when}.", "It should have been '{other}' and not '{step}'{when}."),
	early:     newTemplates("You should have done '{step}' before '{other}'{when}.", "'{other}' came too early: first '{step}'{when}."),
}

// firstFlaw compares an answer with the right list up to the first difference.
func firstFlaw(got, right []string) flaw {
	at := 0
	for at < len(got) && at < len(right) && got[at] == right[at] {
		at++
	}
	if at >= len(right) {
		return flaw{kind: needless, step: got[at]}
	}
	due, last := right[at], ""
	if at > 0 {
		last = right[at-1]
	}
	switch {
	case at >= len(got):
		return flaw{kind: missing, step: due, other: last}
	case !slices.Contains(right, got[at]) && !slices.Contains(got, due):
		return flaw{kind: instead, step: got[at], other: due}
	case !slices.Contains(right, got[at]):
		return flaw{kind: needless, step: got[at]}
	case !slices.Contains(got, due):
		return flaw{kind: missing, step: due, other: last}
	}
	return flaw{kind: early, step: due, other: got[at]}
}

// Text returns the feedback about the flaw.
func (f flaw) Text(when condition, draw uint64) string {
	list := flawWordings[f.kind]
	if f.kind == missing {
		list = list[:2] // the last wording is for the beginning
		if f.other == "" {
			list = flawWordings[missing][2:]
		}
	}
	return list[(draw>>8)%uint64(len(list))].write(rule{step: f.step, other: f.other, when: when}) // as in rule.Text
}

// readFlaw returns the flaw that feedback names, with its reason.
func readFlaw(text string) (f flaw, when condition, ok bool) {
	for _, k := range flawKinds {
		for i := range flawWordings[k] {
			if got, ok := flawWordings[k][i].read(strings.TrimSpace(text)); ok {
				return flaw{kind: k, step: got.step, other: got.other}, got.when, true
			}
		}
	}
	return f, when, false
}
