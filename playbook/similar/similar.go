// Package similar finds short texts that are nearly equal. It measures similarity and names differences; the caller
// chooses thresholds and consequences.
//
// Two texts are compared as sets of words and as sets of three neighbouring characters, the shingles of Broder, "On
// the resemblance and containment of documents" (1997). The similarity of two sets is |A∩B| / |A∪B|: Jaccard's
// coefficient of community (1901), Broder's resemblance. The set of words stays similar if a sentence is reordered.
// The set of characters stays similar if endings change, and in scripts without spaces between words.
//
// Sets ignore order and meaning: "tax before fee" and "fee before tax" have similarity 1. Therefore Difference names the
// difference that separates two similar texts.
package similar

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Match is a text of an Index with its similarity, above 0 and at most 1.
type Match struct {
	ID         string
	Similarity float64
}

// better reports whether m is the better match: more similar, or with the lower id for equal similarity.
func (m Match) better(than Match) bool {
	return cmp.Or(cmp.Compare(m.Similarity, than.Similarity), strings.Compare(than.ID, m.ID)) > 0
}

// DuplicateThreshold is the minimum similarity of two texts that count as duplicates. Below it, only a model can distinguish a
// paraphrase from a different rule on the same subject.
const DuplicateThreshold = 0.88

// maxChecked is the number of similar texts that Duplicate compares with Difference. If none of them is a duplicate, the search ends.
const maxChecked = 8

// Similarity returns the similarity of two texts, from 0 to 1: the larger of the Jaccard indices of their sets of words
// and of their sets of three neighbouring characters. It ignores case, white space and punctuation. A text without a
// letter, number or symbol has similarity 0 to every text, including itself.
func Similarity(a, b string) float64 { return Prepare(a).Similarity(b) }

// Text is a text that is prepared for the comparison with several others.
type Text struct{ sets [setKinds]set }

// Prepare returns a text for comparison.
func Prepare(s string) *Text {
	t := new(Text)
	normalized := normalize(s)
	for k := range setKinds {
		t.sets[k] = k.setOf(normalized)
	}
	return t
}

// Similarity returns the similarity of the text and another one, as the function Similarity does.
func (t *Text) Similarity(other string) float64 {
	normalized := normalize(other)
	best := 0.0
	for k := range setKinds {
		best = max(best, t.sets[k].similarity(k.setOf(normalized)))
	}
	return best
}

// jaccard returns the Jaccard index of two sets from their sizes and the size of their intersection. The quotient is
// correctly rounded, so it preserves the order and equality of the exact fractions.
func jaccard(shared, a, b int) float64 {
	if shared == 0 {
		return 0
	}
	return float64(shared) / float64(a+b-shared)
}

// Index finds the most similar of the texts stored by id. Its results are exact: they equal a comparison with every
// text by Similarity. The zero value is empty. An Index is not safe for concurrent use, and this includes Nearest.
type Index struct {
	entries  map[string]*entry // by id
	sketches [setKinds]sketchIndex
}

// entry is a normalized text.
type entry struct {
	id, text string

	// By kind of set:
	sizes [setKinds]int32 // number of elements
	rows  [setKinds]int32 // row of the sketch in its size class
}

// Len returns the number of texts.
func (x *Index) Len() int { return len(x.entries) }

// Put adds a text or replaces the text of the same id.
func (x *Index) Put(id, text string) {
	text = normalize(text)
	if e := x.entries[id]; e != nil && e.text == text {
		return
	}
	x.Drop(id)
	if x.entries == nil {
		x.entries = make(map[string]*entry)
	}
	e := &entry{id: id, text: text}
	x.entries[id] = e
	for k := range setKinds {
		x.sketches[k].add(e, k.setOf(text), k)
	}
}

// Drop removes the text of an id. It does nothing for an unknown id.
func (x *Index) Drop(id string) {
	e := x.entries[id]
	if e == nil {
		return
	}
	delete(x.entries, id)
	for k := range setKinds {
		x.sketches[k].drop(e, k)
	}
}

// Duplicate returns a text that says the same as the given one: its similarity is at least DuplicateThreshold, and Difference finds nothing.
// textOf returns the present text of an id, or "" to ignore it.
func (x *Index) Duplicate(text string, textOf func(id string) string) (m Match, ok bool) {
	var different map[string]bool
	for range maxChecked {
		m, ok = x.Nearest(text, DuplicateThreshold, func(id string) bool { return different[id] })
		if !ok {
			break
		}
		if known := textOf(m.ID); known != "" && Difference(known, text).Kind == Same {
			return m, true
		}
		if different == nil {
			different = make(map[string]bool)
		}
		different[m.ID] = true
	}
	return Match{}, false
}

// Nearest returns the most similar text with a similarity of at least limit and above 0. Of equally similar texts it returns the one with the
// lowest id. It ignores ids that skip reports; nil skips none. ok is false if no text qualifies.
//
// Nearest reads a sketch of every text, which gives an upper bound of the similarity. It compares texts in full in the order of their
// bounds, until no bound is above the best similarity. A lower limit means more comparisons.
func (x *Index) Nearest(text string, limit float64, skip func(id string) bool) (m Match, ok bool) {
	if !(limit > 0) { // NaN as well
		limit = math.SmallestNonzeroFloat64
	}
	asked := Prepare(text)
	var found []candidate
	for k := range setKinds {
		found = x.sketches[k].candidates(found, asked.sets[k], k, limit)
	}
	slices.SortFunc(found, compareFirst)
	for _, c := range found {
		if c.bound < m.Similarity {
			break
		}
		canWin := Match{c.entry.id, c.bound}.better(m) && (skip == nil || !skip(c.entry.id))
		if !canWin {
			continue
		}
		compared := Match{c.entry.id, asked.sets[c.kind].similarity(c.kind.setOf(c.entry.text))}
		if compared.Similarity >= limit && compared.better(m) {
			m, ok = compared, true
		}
	}
	return m, ok
}
