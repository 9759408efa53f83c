package similar

import (
	"strings"

	"debrief/playbook/text"
)

// stopWords may differ without a change of the meaning. The list has no words that can change it: by, or, may, should
// (as opposed to must), all, some, they, was, will, and directions such as from, off, up, before.
var stopWords = text.Set(`a an the
	is are be been being am do does has have shall must
	and this that these those it its there which who you your
	then also simply please so always eg ie e.g i.e etc`)

// prepositions may be missing in one text, but must not differ: "wait for 3 days" equals "wait 3 days", but not "wait
// in 3 days".
var prepositions = text.Set("of to in on at as for with into")

// negations reverse a rule or restrict it. The map has the form in which each is compared. All words for a plain "not" have the same form:
// "never round", "don't round" and "avoid to round" are one rule.
var negations = map[string]string{
	"not": "not", "never": "not", "no": "not", "without": "not", "avoid": "not",
	"none": "none", "nothing": "nothing", "nobody": "nobody", "nowhere": "nowhere", "neither": "neither", "nor": "nor",
	"unless": "unless", "except": "except", "excepting": "except", "only": "only", "just": "only", "but": "but", "instead": "instead",
}

// auxiliaries are the verbs that combine with "n't". The apostrophe is often missing.
var auxiliaries = text.Set("do does did is are was were has have had should would could must need might")

// numerals are numbers in words. Ordinals and "once" are not included because they have too many other uses.
var numerals = map[string]string{
	"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
	"nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}

// synonyms map words to another word of the same meaning.
var synonyms = map[string]string{"if": "when", "whenever": "when", "pct": "percent"}

// notPlural are words whose meaning differs from the word without the s.
var notPlural = text.Set("news goods customs")

// isPlural reports whether many is the plural of the noun one, or the third person of the verb one.
func isPlural(one, many string) bool {
	stem, found := strings.CutSuffix(many, "s")
	if !found || len(one) < 3 || notPlural[many] {
		return false
	}
	switch last := one[len(one)-1]; last {
	case 's', 'x', 'z', 'h', 'o':
		return stem == one+"e" || stem == one && last != 's'
	case 'y':
		return stem == one[:len(one)-1]+"ie" || stem == one
	}
	return stem == one
}
