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
	"slices"
	"strings"

	"debrief/playbook/recall"
)

// Match is a text of an Index with its similarity, above 0 and at most 1.
type Match struct {
	ID         string
	Similarity float64
}

// DuplicateThreshold is the minimum similarity of two texts that count as duplicates. Below it, only a model can distinguish a
// paraphrase from a different rule on the same subject.
const DuplicateThreshold = 0.88

// Similarity returns the similarity of two texts, from 0 to 1. It is the larger of two Jaccard indices: that of their sets of words,
// and that of their sets of three neighbouring characters. It ignores case, white space and punctuation. A text without a
// letter, number or symbol has similarity 0 to every text, including itself.
func Similarity(a, b string) float64 { return Prepare(a).Similarity(b) }

// Text is a text that is prepared for the comparison with several others.
type Text struct{ words, grams set }

// Prepare returns a text for comparison.
func Prepare(s string) *Text {
	normalized := normalize(s)
	return &Text{words: wordsOf(normalized), grams: gramsOf(normalized)}
}

// Similarity returns the similarity of the text and another one, as the function Similarity does.
func (t *Text) Similarity(other string) float64 { return t.SimilarityTo(Prepare(other)) }

// SimilarityTo is Similarity for another text that is prepared.
func (t *Text) SimilarityTo(o *Text) float64 {
	return max(t.words.similarity(o.words), t.grams.similarity(o.grams))
}

// Index finds the most similar of its texts. It compares only the maxCompared texts that BM25 ranks first, because a text with a high similarity has
// nearly all words in common. The zero value is empty. Searches may run concurrently, a change must run alone.
type Index struct {
	words recall.WordIndex
	texts map[string]string // by id
}

// maxCompared is the number of texts that a search compares.
const maxCompared = 64

// Put adds a text or replaces the text of the same id.
func (x *Index) Put(id, text string) {
	if known, ok := x.texts[id]; ok && known == text {
		return
	}
	if x.texts == nil {
		x.texts = make(map[string]string)
	}
	x.texts[id] = text
	x.words.Put(id, text)
}

// Drop removes the text of an id. It does nothing for an unknown id.
func (x *Index) Drop(id string) {
	delete(x.texts, id)
	x.words.Drop(id)
}

// Duplicate returns the most similar text that is a duplicate: its similarity is at least DuplicateThreshold, and Difference finds nothing. It
// returns false if there is none. textOf returns the present text of an id, or "" to ignore the id.
func (x *Index) Duplicate(text string, textOf func(id string) string) (Match, bool) {
	for _, m := range x.matches(text, DuplicateThreshold) {
		if known := textOf(m.ID); known != "" && Difference(known, text).Kind == Same {
			return m, true
		}
	}
	return Match{}, false
}

// Nearest returns the most similar text with a similarity of at least limit and above 0. Of equally similar texts it returns the one with the
// lowest id. It ignores the ids for which skip returns true; nil skips none. It returns false if no text qualifies.
func (x *Index) Nearest(text string, limit float64, skip func(id string) bool) (Match, bool) {
	for _, m := range x.matches(text, limit) {
		if skip == nil || !skip(m.ID) {
			return m, true
		}
	}
	return Match{}, false
}

// matches returns the compared texts with a similarity of at least limit and above 0, the most similar one first.
func (x *Index) matches(text string, limit float64) (all []Match) {
	prepared := Prepare(text)
	for _, c := range x.words.Top(text, maxCompared) {
		if s := prepared.Similarity(x.texts[c.Key]); s >= limit && s > 0 {
			all = append(all, Match{c.Key, s})
		}
	}
	slices.SortFunc(all, func(a, b Match) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), strings.Compare(a.ID, b.ID))
	})
	return all
}
