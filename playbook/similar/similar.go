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
	"strings"

	"debrief/playbook/heap"
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

// MaxChecked is the number of similar texts that a caller compares with Difference. If none of them is a duplicate, the search ends.
const MaxChecked = 8

// Similarity returns the similarity of two texts, from 0 to 1: the larger of the Jaccard indices of their sets of words
// and of their sets of three neighbouring characters. It ignores case, white space and punctuation. A text without a
// letter, number or symbol has similarity 0 to every text, including itself.
func Similarity(a, b string) float64 { return Prepare(a).Similarity(b, 0) }

// Text is a text that is prepared for the comparison with several others. It is not safe for concurrent use.
type Text struct {
	probe probe
	other tokenSet // set of the other text, reused
}

// Prepare returns a text for comparison.
func Prepare(s string) *Text {
	t := new(Text)
	t.probe.load(normalize(s))
	return t
}

// Similarity returns the similarity of the text and another one, as the function Similarity does. It may return 0 for a
// similarity below limit, which is faster.
func (t *Text) Similarity(other string, limit float64) float64 {
	normalized := normalize(other)
	best := 0.0
	for k := range setKinds {
		set := &t.probe.sets[k]
		t.probe.tokens = k.tokens(t.probe.tokens[:0], normalized)
		shared := set.overlap(t.probe.tokens)
		bound := jaccard(shared, set.size, shared) // as if the other set had only the shared tokens
		if bound < limit || bound <= best {
			continue
		}
		t.other.reset(t.probe.tokens)
		best = max(best, jaccard(shared, set.size, t.other.size))
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
	ids      map[string]*entry
	texts    map[string]*entry // by normalized text
	sketches [setKinds]sketchIndex

	// The following are reused.
	probe probe
	queue heap.Heap[candidate] // the highest bound first; a heap, because only a few of many candidates are removed
}

// entry is a normalized text with the ids of all texts that have it, so that equal texts are compared once.
type entry struct {
	text string
	ids  []string // ascending

	// By kind of set:
	sizes [setKinds]int32 // number of elements
	rows  [setKinds]int32 // row of the sketch in its size class
}

// firstID returns the lowest id that skip does not report; nil skips none. ok is false if there is none.
func (e *entry) firstID(skip func(string) bool) (id string, ok bool) {
	for _, id := range e.ids {
		if skip == nil || !skip(id) {
			return id, true
		}
	}
	return "", false
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
	text = normalize(text)
	x.probe.load(text)
	if e := x.texts[text]; e != nil && text != "" && limit <= 1 {
		if id, found := e.firstID(skip); found {
			m, ok = Match{id, 1}, true
			limit = 1 // a text with the same set, but in another order, may have a lower id
		}
	}
	x.queue = x.queue[:0]
	for k := range setKinds {
		x.queue = x.sketches[k].candidates(x.queue, &x.probe.sets[k], k, limit)
	}
	defer clear(x.queue) // do not keep dropped entries alive
	x.queue.Init(compareFirst)
	for len(x.queue) > 0 && x.queue[0].bound >= m.Similarity {
		c := x.queue.Pop(compareFirst)
		id, found := c.entry.firstID(skip)
		canWin := found && Match{id, c.bound}.better(m)
		if !canWin {
			continue
		}
		compared := Match{id, x.probe.likeness(c.entry, c.kind)}
		if compared.Similarity >= limit && compared.better(m) {
			m, ok = compared, true
		}
	}
	return m, ok
}
