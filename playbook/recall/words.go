package recall

import (
	"cmp"
	"strings"

	"debrief/playbook/text"
)

// WordIndex finds texts by words. The zero value is empty. Reads may run concurrently, a change must run alone.
type WordIndex struct {
	// IgnoreCommon makes Top ignore the common words of the query, see isCommon. They hardly change the order, but to score them Top would read
	// most of the postings.
	IgnoreCommon bool
	// NewestCommon is the number of texts with a common word, the newest, that Top scores in spite of IgnoreCommon. It does so if the other words
	// find fewer texts than it returns.
	NewestCommon int

	inverted    invertedIndex
	numbers     map[string]uint32 // by key
	keys        []string          // by number
	hashes      []uint64          // of the keys, by number; see compareKeys
	freeNumbers []uint32          // numbers of removed texts, for new ones
}

// Match is a text that a search found.
type Match struct {
	Key string
	// Score is above 0 and below 1, or 1 in Unnamed.Top. WordIndex.Top divides BM25 by its upper bound for the words of the query that the index
	// knows. This is about 0.45 for a text of average length with each word once, and more for a shorter text or for more occurrences.
	Score float64
}

// Len returns the number of texts.
func (w *WordIndex) Len() int { return len(w.numbers) }

// Put adds a text or replaces the text of the same key. Only the first 64 KiB are read.
func (w *WordIndex) Put(key, content string) {
	w.Drop(key)
	w.put(key, content)
}

// put adds a text with a new key and returns its number.
func (w *WordIndex) put(key, content string) uint32 {
	if w.numbers == nil {
		w.numbers = make(map[string]uint32)
	}
	number := uint32(len(w.keys))
	if n := len(w.freeNumbers); n > 0 {
		number, w.freeNumbers = w.freeNumbers[n-1], w.freeNumbers[:n-1]
		w.keys[number], w.hashes[number] = key, text.Hash(key)
	} else {
		w.keys, w.hashes = append(w.keys, key), append(w.hashes, text.Hash(key))
	}
	w.numbers[key] = number
	w.inverted.put(number, content)
	return number
}

// Drop removes the text of a key. It does nothing for an unknown key.
func (w *WordIndex) Drop(key string) {
	number, ok := w.numbers[key]
	if !ok {
		return
	}
	w.inverted.drop(number)
	delete(w.numbers, key)
	w.keys[number] = ""
	w.freeNumbers = append(w.freeNumbers, number)
}

// compareKeys is the order of texts with equal scores. Many short texts have equal scores, so it compares the hashes of the keys, which is
// faster, and the keys only if the hashes are equal.
func (w *WordIndex) compareKeys(a, b uint32) int {
	if w.hashes[a] != w.hashes[b] {
		return cmp.Compare(w.hashes[a], w.hashes[b])
	}
	return strings.Compare(w.keys[a], w.keys[b])
}

// Top returns the n texts with the highest scores, the best first. Texts with equal scores have an order that depends only on
// their keys.
func (w *WordIndex) Top(query string, n int) []Match {
	v := &w.inverted
	accumulated := v.acquire()
	defer v.release(accumulated)
	for _, q := range v.parseQuery(query) { // the rarest first
		postings := v.terms[q.term].postings
		if w.IgnoreCommon && v.isCommon(q.term) {
			if len(accumulated.found) >= n {
				break
			}
			postings = postings[max(0, len(postings)-w.NewestCommon):]
		}
		v.addWeights(accumulated, q.share, postings)
	}
	best := newTop(n, w.compareKeys)
	for _, number := range accumulated.found {
		best.Offer(scored{number, accumulated.scores[number]})
	}
	matches := []Match{}
	for _, hit := range best.Sorted() {
		matches = append(matches, Match{w.keys[hit.number], hit.score})
	}
	return matches
}
