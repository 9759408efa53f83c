package recall

import "slices"

// Coverage holds texts against one query, to see how much of what a text says the query speaks of. It is good until the
// words change.
type Coverage struct {
	words *Words
	query map[uint32]int // how often it has a term that some text has
}

// Coverage begins to hold texts against a query, of which the first 64 KiB count.
func (w *Words) Coverage(query string) *Coverage {
	c := &Coverage{w, make(map[uint32]int)}
	eachTerm(query[:min(len(query), maxText)], func(name []byte) {
		if id, ok := w.inverted.ids[string(name)]; ok {
			c.query[id]++
		}
	})
	return c
}

// Sentence is how many words that count a text may have, numbers aside, for its share to say much. Of what is longer no
// question has most of the words, nor does it repeat them; of those only so many count, the ones that weigh most.
const Sentence = 12

// directions are words that many texts have and few questions. They are no endings, so stems and words are the same.
var directions = map[string]bool{"befor": true, "after": true, "up": true, "down": true}

// Of is the part of a text that the query covers, from 0 to 1: the share of the weight of its words that are in the
// query. What a sentence says twice, such as "small" of "for order size small the small order fee is …", must be in it
// twice. A word weighs one over the square of how many texts have it, so that what tells a text from
// its neighbours decides, in a set of ten texts as in one of ten thousand; inverse document frequencies are too flat for
// that. Of sentences that differ in a word, such as "for region North …" and "for region South …", that word then has
// nearly all the weight. Numbers do not count: they are what a text tells, not what it is about. Words that no other text
// has count alike, so of a text that has no neighbours most of the words are asked for. A text without words is about
// everything. It also returns how many words the text has.
func (c *Coverage) Of(text string) (share float64, words int) {
	type counted struct {
		id    uint32 // 0 and unknown of a word that is in none of the texts
		known bool
		n     int
	}
	var buf [32]counted
	terms := buf[:0]
	eachTerm(text[:min(len(text), maxText)], func(name []byte) {
		if number(name) || directions[string(name)] {
			return
		}
		id, known := c.words.inverted.ids[string(name)]
		if !known {
			terms = append(terms, counted{n: 1})
			return
		}
		for i := range terms {
			if terms[i].known && terms[i].id == id {
				terms[i].n++
				return
			}
		}
		terms = append(terms, counted{id, true, 1})
	})
	if len(terms) == 0 {
		return 1, 0
	}
	var room [32]float64
	weights, covered := room[:0], 0.0
	for _, t := range terms {
		weight := 1.0
		if t.known {
			texts := float64(len(c.words.inverted.terms[t.id].lists))
			weight = 1 / (texts * texts)
		}
		weights = append(weights, weight)
		asked := 1
		if len(terms) <= Sentence {
			asked = min(t.n, 2)
		}
		if t.known && c.query[t.id] >= asked {
			covered += weight
		}
	}
	if len(weights) > Sentence {
		slices.Sort(weights)
		weights = weights[len(weights)-Sentence:]
	}
	all := 0.0
	for _, weight := range weights {
		all += weight
	}
	return min(covered/all, 1), len(terms)
}

// number reports whether a term is digits and points alone.
func number(name []byte) bool {
	for _, c := range name {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}
