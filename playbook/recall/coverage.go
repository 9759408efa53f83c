package recall

import "slices"

// Coverage computes how much of a text a query mentions. It is valid until the Words change.
type Coverage struct {
	words *WordIndex
	query map[uint32]int // count of each known term in the query
}

// Coverage returns the coverage of a query. Only the first 64 KiB of the query are read.
func (w *WordIndex) Coverage(query string) *Coverage {
	c := &Coverage{w, make(map[uint32]int)}
	eachTerm(query[:min(len(query), maxText)], func(name []byte) {
		if id, ok := w.inverted.ids[string(name)]; ok {
			c.query[id]++
		}
	})
	return c
}

// MaxCoverageWords is the maximum number of words of a text, without numbers, that all count. A question rarely mentions most
// words of a longer text and does not repeat them. Of a longer text only this number of words with the highest
// weights counts.
const MaxCoverageWords = 12

// directionWords occur in many texts and few questions. They have no endings, so each is its own stem.
var directionWords = map[string]bool{"befor": true, "after": true, "up": true, "down": true}

// Share returns the part of a text that the query covers, from 0 to 1: the share of the weight of its words that occur
// in the query. It also returns the number of words of the text. A text without words has share 1.
//
// A word that occurs twice in a sentence must occur twice in the query, such as "small" in "for order size small the
// small order fee is …". The weight of a word is 1/n², where n is the number of texts with the word. So the words
// that distinguish a text from its neighbours decide, in a set of ten texts and of ten thousand; inverse document
// frequencies are too flat for this. If sentences differ in one word, as in "for region North …" and "for region
// South …", this word has nearly all of the weight. Numbers are ignored because they are the information of a text
// and not its topic. Words in no other text have equal weights, so for a text without neighbours the query must
// contain most of its words.
func (c *Coverage) Share(text string) (share float64, words int) {
	type textTerm struct {
		id    uint32 // 0 for a word that no text contains
		known bool
		n     int
	}
	var buf [32]textTerm
	terms := buf[:0]
	eachTerm(text[:min(len(text), maxText)], func(name []byte) {
		if isNumber(name) || directionWords[string(name)] {
			return
		}
		id, known := c.words.inverted.ids[string(name)]
		if !known {
			terms = append(terms, textTerm{n: 1})
			return
		}
		for i := range terms {
			if terms[i].known && terms[i].id == id {
				terms[i].n++
				return
			}
		}
		terms = append(terms, textTerm{id, true, 1})
	})
	if len(terms) == 0 {
		return 1, 0
	}
	var room [32]float64
	weights, covered := room[:0], 0.0
	for _, t := range terms {
		weight := 1.0
		if t.known {
			texts := float64(len(c.words.inverted.terms[t.id].postings))
			weight = 1 / (texts * texts)
		}
		weights = append(weights, weight)
		required := 1
		if len(terms) <= MaxCoverageWords {
			required = min(t.n, 2)
		}
		if t.known && c.query[t.id] >= required {
			covered += weight
		}
	}
	if len(weights) > MaxCoverageWords {
		slices.Sort(weights)
		weights = weights[len(weights)-MaxCoverageWords:]
	}
	total := 0.0
	for _, weight := range weights {
		total += weight
	}
	return min(covered/total, 1), len(terms)
}

// isNumber reports whether a term consists of digits and points.
func isNumber(name []byte) bool {
	for _, c := range name {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}
