package recall

import "math"

// Unnamed ranks texts by their unnamed words, which are the words that the query does not have: the less these weigh together, the better.
// A text can thus be found although it shares no word with the query: short texts before long ones, and texts in familiar words before
// texts with a name that no query had.
//
// The weight of a word is its inverse document frequency. A familiar word, which is in a past query or in a text that was of use, counts
// only a tenth of it. The other words are likely to be conditions that no earlier task met.
//
// An Unnamed is a snapshot of a WordIndex, which it still reads. It does not find texts that were put later, and a text that was replaced
// later counts as before. The cost of a search is that of reading the postings of the query.
type Unnamed struct {
	words   *WordIndex
	weights []float64 // by term
	sums    []float64 // by text: of the weights of its terms
	least   []uint32  // texts with the least sums, in order
}

const (
	familiarWeight = 0.1
	// maxLeast is the number of texts that are kept in order. A search finds these, and all texts with a word of the query.
	maxLeast = 1024
)

// NewUnnamed returns a snapshot. The words of past queries, and those of the texts with the keys in useful, are familiar.
func (w *WordIndex) NewUnnamed(queries *WordIndex, useful []string) *Unnamed {
	v := &w.inverted
	u := &Unnamed{words: w, weights: make([]float64, len(v.terms)), sums: make([]float64, len(v.lengths))}
	for id := range v.terms {
		t := &v.terms[id]
		u.weights[id] = v.rarity(len(t.postings))
		if _, familiar := queries.inverted.ids[t.name]; familiar {
			u.weights[id] *= familiarWeight
		}
	}
	lowered := make(map[uint32]bool)
	for _, key := range useful {
		number, known := w.numbers[key]
		if !known {
			continue
		}
		for _, ref := range v.termRefs[number] {
			_, familiar := queries.inverted.ids[v.terms[ref.term].name]
			if !familiar && !lowered[ref.term] {
				lowered[ref.term] = true
				u.weights[ref.term] *= familiarWeight
			}
		}
	}
	least := newTop(maxLeast, w.compareKeys)
	for number, refs := range v.termRefs {
		if len(refs) == 0 {
			continue
		}
		for _, ref := range refs {
			u.sums[number] += u.weights[ref.term]
		}
		least.Offer(scored{uint32(number), -u.sums[number]})
	}
	for _, s := range least.Sorted() {
		u.least = append(u.least, s.number)
	}
	return u
}

// rarity returns the inverse document frequency of a term in a number of documents. It is above 0 also for a term in all of them.
func (v *invertedIndex) rarity(documents int) float64 {
	with := float64(documents)
	return math.Log1p((float64(v.count) - with + 0.5) / (with + 0.5))
}

// Top returns the n texts with the least weight of unnamed words, the best first. The score is 1 without unnamed words and falls with
// their weight.
func (u *Unnamed) Top(query string, n int) []Match {
	v := &u.words.inverted
	named := v.acquire() // its scores are the weights of the named words of each text
	defer v.release(named)
	for _, q := range v.parseQuery(query) {
		postings := v.terms[q.term].postings
		isCommon := len(postings) > commonTexts && len(postings) > v.count/2
		if isCommon || int(q.term) >= len(u.weights) {
			continue
		}
		for _, p := range postings {
			if named.scores[p.document] == 0 {
				named.found = append(named.found, p.document)
			}
			named.scores[p.document] += u.weights[q.term]
		}
	}
	best := newTop(n, u.words.compareKeys)
	offer := func(number uint32) {
		if int(number) < len(u.sums) && u.sums[number] > 0 && u.words.keys[number] != "" {
			best.Offer(scored{number, 1 / (1 + max(0, u.sums[number]-named.scores[number]))})
		}
	}
	for _, number := range named.found {
		offer(number)
	}
	for _, number := range u.least {
		if int(number) < len(named.scores) && named.scores[number] == 0 {
			offer(number)
		}
	}
	matches := make([]Match, 0, n)
	for _, s := range best.Sorted() {
		matches = append(matches, Match{u.words.keys[s.number], s.score})
	}
	return matches
}
