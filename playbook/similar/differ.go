package similar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// Kind is the kind of a difference between two texts.
type Kind int

// The kinds of a difference. Those from Numbers to Words are also the kinds of a term. Of several differences, the first kind in this order is
// reported.
const (
	Same        Kind = iota // no difference
	Numbers                 // a number differs, or only one text has it
	Identifiers             // a name, a quotation or code differs
	Negations               // a negation differs, or only one text has it
	Words                   // a plain word differs
	Order                   // the same terms are in another order
)

// Diff is the difference between two texts. The zero value stands for equal meaning.
type Diff struct {
	Kind Kind
	// Reason describes the difference for people, such as "numbers differ: 10 and 12". It is empty if Kind is Same.
	Reason string
}

// Difference returns the reason not to treat two similar texts as duplicates. Its kind is Same if it finds none.
//
// Two texts are equal if they consist of the same terms in the same order. Some variations are accepted because they
// seldom change a rule: case and punctuation outside code, white space, the plural, number formats, and stop words
// such as "the", "is" and "of". Every other difference counts, including a plain word. The published playbooks of ACE
// contain 22 pairs of bullets with a similarity of at least 0.88 that are not copies. About half of them differ in
// meaning, such as newest and oldest, or album and playlist. Difference does not recognize a paraphrase.
//
// The rules for plurals, negations and stop words are English. In other languages Difference reports more differences.
func Difference(a, b string) Diff {
	x, y := parseTerms(a), parseTerms(b)
	// Only the terms between an equal beginning and an equal end matter.
	for len(x) > 0 && len(y) > 0 && x[0].equal(&y[0]) {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1].equal(&y[len(y)-1]) {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) == 0 && len(y) == 0 {
		return Diff{}
	}
	for kind := Numbers; kind <= Words; kind++ {
		onlyX, onlyY := firstExtra(x, y, kind), firstExtra(y, x, kind)
		switch {
		case onlyX != nil && onlyY != nil:
			return Diff{kind, fmt.Sprintf("%s differ: %s and %s", kindNames[kind], onlyX, onlyY)}
		case onlyX != nil || onlyY != nil:
			return Diff{kind, fmt.Sprintf("%s differ: only one has %s", kindNames[kind], cmp.Or(onlyX, onlyY))}
		}
	}
	// Here x and y have the same terms, so neither is empty. They differ in a preposition or in the order.
	if x[0].equalText(&y[0]) {
		return Diff{Words, fmt.Sprintf("words differ: %s and %s", x[0].preposition, y[0].preposition)}
	}
	return Diff{Order, fmt.Sprintf("order differs: %s and %s", &x[0], &y[0])}
}

// Missing returns a term of s that another text lacks, as a difference. Its kind is Same if the other text has all terms of s, in any order and
// any inflection.
func Missing(s, in string) Diff {
	exact, stems := make(map[string]bool), make(map[string]bool)
	for _, t := range parseTerms(in) {
		exact[fold(t.text)] = true
		stems[t.stem()] = true
	}
	terms := parseTerms(s)
	for kind := Numbers; kind <= Words; kind++ {
		for i := range terms {
			t := &terms[i]
			isFound := exact[fold(t.text)] || !t.exact && stems[t.stem()]
			isOptional := t.text == "or" // a list may have a comma instead
			if t.kind == kind && !isFound && !isOptional {
				return Diff{kind, fmt.Sprintf("%s is missing", t)}
			}
		}
	}
	return Diff{}
}

// kindNames are the names of the kinds that a term can have, in a reason.
var kindNames = [...]string{Numbers: "numbers", Identifiers: "identifiers", Negations: "negations", Words: "words"}

// term is a part of a text that counts in the comparison.
type term struct {
	kind        Kind   // from Numbers to Words
	raw         string // as written
	text        string // the form that is compared
	preposition string // the preposition before it; it may be missing in one text
	exact       bool   // for code, names and quotations: case matters, and a plural is another term
}

// equal reports whether two terms have equal texts and no different prepositions.
func (t *term) equal(o *term) bool {
	samePreposition := t.preposition == o.preposition || t.preposition == "" || o.preposition == ""
	return samePreposition && t.equalText(o)
}

// equalText reports whether two terms are equal without their prepositions.
func (t *term) equalText(o *term) bool {
	switch {
	case t.exact && o.exact:
		return t.text == o.text
	case t.exact || o.exact:
		return fold(t.text) == fold(o.text) // the same name with and without quotes
	}
	return t.text == o.text || isPlural(t.text, o.text) || isPlural(o.text, t.text)
}

// String returns the term as a single line of limited length.
func (t *term) String() string {
	const longest = 40 // bytes
	return text.Line(t.raw, longest)
}

// stem returns the stem of the term, without case and width. It marks the stem of a negation, because the stem of "note" is "not".
func (t *term) stem() string {
	stem := text.Stem(fold(t.text))
	if t.kind == Negations {
		return "-" + stem
	}
	return stem
}

// fold returns a text without case and width.
func fold(s string) string { return strings.Map(text.Fold, s) }

// firstExtra returns the first term of a kind that has no partner in others, or nil. Partners have equal texts, may be of different
// kinds, and no term is the partner of two.
func firstExtra(terms, others []term, kind Kind) *term {
	left := make(map[string]int, len(others)) // by key: the terms of others that have no partner in terms yet
	for i := range others {
		left[others[i].key()]++
	}
	// First pair the terms with the same key, which is quick, and then the other terms with equal texts.
	var alone []*term
	for i := range terms {
		if key := terms[i].key(); left[key] > 0 {
			left[key]--
		} else {
			alone = append(alone, &terms[i])
		}
	}
	for _, t := range alone {
		partner := slices.IndexFunc(others, func(o term) bool { return left[o.key()] > 0 && t.equalText(&o) })
		switch {
		case partner >= 0:
			left[others[partner].key()]--
		case t.kind == kind:
			return t
		}
	}
	return nil
}

// key returns equal strings only for terms that equalText calls equal. It returns different ones for some of them, such as "box" and "boxes", or a
// name with and without quotes.
func (t *term) key() string {
	switch {
	case t.exact:
		return "`" + t.text // differs from the key of a plain term, which its plural shares
	case notPlural[t.text]:
		return t.text
	}
	return strings.TrimSuffix(t.text, "s")
}
