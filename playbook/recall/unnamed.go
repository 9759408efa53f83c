package recall

import "slices"

// Unnamed ranks texts, such as conditions, by the words that the query does not name. The less these words of a text weigh together, the better
// the text. So a search can find a text that shares no word with the query: short texts come before long ones, and texts with
// familiar words before texts with a name that no query had.
//
// The weight of a word is its inverse document frequency, and a tenth of it for a familiar word: one in a past query, or in a text that has
// helped. A word that is not familiar is probably a condition that no earlier task met.
//
// An Unnamed is a snapshot of a WordIndex, but it reads the postings of the query from this WordIndex. It does not find texts that were put later,
// and a text that was replaced later counts with its old words.
type Unnamed struct {
	words   *WordIndex
	hashes  []uint64  // of the keys, by text: a later text can get the number of a removed one
	weights []float64 // by term
	sums    []float64 // by text: the sum of the weights of its terms
	least   []uint32  // the texts with the least sums, in order
}

const (
	familiarWeight = 0.1
	// maxLeast is the maximum length of Unnamed.least. A search finds these texts, and all texts with a word of the query.
	maxLeast = 1024
)

// NewUnnamed returns a snapshot. The words of past queries, and those of the texts with the keys in useful, are familiar.
func (w *WordIndex) NewUnnamed(queries *WordIndex, useful []string) *Unnamed {
	v := &w.inverted
	u := &Unnamed{words: w, hashes: slices.Clone(w.hashes), weights: make([]float64, len(v.terms)), sums: make([]float64, len(v.lengths))}
	familiar := make([]bool, len(v.terms))
	for _, key := range useful {
		if number, ok := w.numbers[key]; ok {
			for _, ref := range v.termRefs[number] {
				familiar[ref.term] = true
			}
		}
	}
	for id := range v.terms {
		t := &v.terms[id]
		u.weights[id] = v.rarity(len(t.postings))
		if _, inQuery := queries.inverted.ids[t.name]; inQuery || familiar[id] {
			u.weights[id] *= familiarWeight
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

// Top returns the n texts with the least weight of unnamed words, the best first. The score is 1 without unnamed words and falls with
// their weight.
func (u *Unnamed) Top(query string, n int) []Match {
	v := &u.words.inverted
	named := v.acquire() // its scores are the weights of the named words of each text
	defer v.release(named)
	for _, q := range v.parseQuery(query) {
		isNew := int(q.term) >= len(u.weights) // put after the snapshot
		if isNew || v.isCommon(q.term) {
			continue
		}
		for _, p := range v.terms[q.term].postings {
			if named.scores[p.document] == 0 {
				named.found = append(named.found, p.document)
			}
			named.scores[p.document] += u.weights[q.term]
		}
	}
	best := newTop(n, u.words.compareKeys)
	for _, number := range named.found {
		if u.has(number) {
			unnamed := max(0, u.sums[number]-named.scores[number])
			best.Offer(scored{number, 1 / (1 + unnamed)})
		}
	}
	for _, number := range u.least {
		if named.scores[number] > 0 || !u.has(number) { // offered above, or removed
			continue
		}
		if !best.Offer(scored{number, 1 / (1 + u.sums[number])}) {
			break // the texts after it come later in the order
		}
	}
	matches := make([]Match, 0, n)
	for _, s := range best.Sorted() {
		matches = append(matches, Match{u.words.keys[s.number], s.score})
	}
	return matches
}

// has reports whether the text with a number is that of the snapshot. A text that was put later has a new number, or the number of a removed text
// and another key. A text that was removed before the snapshot has no sum, one that was removed since has no key.
func (u *Unnamed) has(number uint32) bool {
	return int(number) < len(u.sums) && u.sums[number] > 0 && u.words.keys[number] != "" && u.words.hashes[number] == u.hashes[number]
}
