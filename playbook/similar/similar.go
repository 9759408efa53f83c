// Package similar finds short texts that say nearly the same. It measures and names, and decides nothing: thresholds,
// and what becomes of two texts that are alike, are the caller's.
//
// Two texts are compared as sets of words and as sets of three neighbouring characters, the shingles of Broder, "On the
// resemblance and containment of documents" (1997). The likeness of two sets is what they share over what they have
// together, |A∩B| / |A∪B|: Jaccard's coefficient of community (1901), Broder's resemblance. Words stay alike when a
// sentence is turned, characters when an ending changes, and in scripts that put no space between words.
//
// Sets know neither order nor what a word turns around: "tax before fee" and "fee before tax" are alike to the full.
// Hence Differ, which names what keeps two texts apart however alike they are.
package similar

import (
	"cmp"
	"math"
	"strings"
)

// Match is a text of an Index and how like it is, above 0 and up to 1.
type Match struct {
	ID       string
	Likeness float64
}

// better reports whether m is to be preferred: the more alike, of equals the lowest id.
func (m Match) better(than Match) bool {
	return cmp.Or(cmp.Compare(m.Likeness, than.Likeness), strings.Compare(than.ID, m.ID)) > 0
}

// Nearly is how alike two texts must be to count as one. Below it a paraphrase cannot be told from another rule on the same
// thing without a model.
const Nearly = 0.88

// Likeness of two texts, from 0 to 1: the larger of the Jaccard indices of their sets of words and of their sets of
// three neighbouring characters. Case, white space and punctuation do not count. A text without a letter, a number or a
// symbol is like nothing, not even itself.
func Likeness(a, b string) float64 {
	var x probe
	x.read(normal(a))
	var own tally
	y := normal(b)
	best := 0.0
	for k := range kinds {
		tokens := k.tokens(x.tokens[:0], y)
		own.fill(tokens)
		best = max(best, jaccard(x.sets[k].shared(tokens), x.sets[k].size, own.size))
	}
	return best
}

// jaccard is the index of two sets of these sizes that share so much. As a correctly rounded quotient it orders as the
// fractions do, and equal fractions are equal.
func jaccard(shared, a, b int) float64 {
	if shared == 0 {
		return 0
	}
	return float64(shared) / float64(a+b-shared)
}

// Index finds, among texts kept by id, the one most like another. Its answers are exact: those of comparing with every
// text by Likeness. The zero value is empty. Not safe for concurrent use, not even Near.
type Index struct {
	ids    map[string]*entry
	texts  map[string]*entry // by normal form
	sieves [kinds]sieve

	probe probe // scratch
	queue queue
}

// entry is one normal form and the ids of the texts that have it: copies cost no comparison each.
type entry struct {
	text  string
	ids   []string // ascending
	sizes [kinds]int32
	rows  [kinds]int32 // where the sieves keep it
}

// first is the lowest id that is not to be skipped.
func (e *entry) first(skip func(string) bool) (id string, ok bool) {
	for _, id := range e.ids {
		if skip == nil || !skip(id) {
			return id, true
		}
	}
	return "", false
}

// Near is the text most like this one, with a likeness of at least min and above 0; of equals it is the one with the
// lowest id. It leaves out the ids that skip reports; nil leaves out none. Not ok if there is no such text.
//
// It takes a glance at every text and a close look at few, of which there are the more the lower min is.
func (x *Index) Near(text string, min float64, skip func(id string) bool) (m Match, ok bool) {
	if !(min > 0) { // NaN as well
		min = math.SmallestNonzeroFloat64
	}
	text = normal(text)
	x.probe.read(text)
	if e := x.texts[text]; e != nil && text != "" && min <= 1 {
		if id, any := e.first(skip); any {
			m, ok, min = Match{id, 1}, true, 1 // there may be another, with a lower id
		}
	}
	x.queue = x.queue[:0]
	for k := range kinds {
		x.queue = x.sieves[k].sift(x.queue, &x.probe.sets[k], k, min)
	}
	defer clear(x.queue) // entries that are dropped are not to be held
	x.queue.order()
	for len(x.queue) > 0 && x.queue[0].bound >= m.Likeness {
		c := x.queue.pop()
		id, any := c.of.first(skip)
		if !any || !(Match{id, c.bound}).better(m) {
			continue
		}
		found := Match{id, x.probe.likeness(c.of, c.kind)}
		if found.Likeness >= min && found.better(m) {
			m, ok = found, true
		}
	}
	return m, ok
}
