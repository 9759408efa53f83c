package recall

import (
	"cmp"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// WordIndex finds texts by words. The zero value is empty. Reads may run concurrently, a change must run alone.
type WordIndex struct {
	// IgnoreCommon makes Top ignore a word of the query that is in more than half of the texts and in more than commonTexts of
	// them. Such a word hardly changes the order, but a search for it would read most of the texts.
	IgnoreCommon bool

	inverted    invertedIndex
	numbers     map[string]uint32 // by key
	keys        []string          // by number
	hashes      []uint64          // of the keys, by number
	freeNumbers []uint32          // unused numbers
}

// commonTexts is the number of texts that may contain a word without making it common; see WordIndex.IgnoreCommon.
const commonTexts = 500

// Match is a text with its score, above 0 and below 1: BM25 divided by the upper bound for the words of the query that the index knows. A
// text of average length that contains each word of the query once has a score of about 0.45. It grows with more occurrences and in a
// shorter text, so two texts that contain all words can still have different scores.
type Match struct {
	Key   string
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

// compareKeys is the order of texts with equal scores. It compares hashes of their keys, and the keys only if the hashes are equal: short texts
// often have equal scores, and comparing numbers is faster.
func (w *WordIndex) compareKeys(a, b uint32) int {
	if w.hashes[a] != w.hashes[b] {
		return cmp.Compare(w.hashes[a], w.hashes[b])
	}
	return strings.Compare(w.keys[a], w.keys[b])
}

// Top returns the n texts with the highest scores, the best first. Texts with equal scores have an order that depends only on
// their keys.
func (w *WordIndex) Top(query string, n int) []Match {
	q := w.inverted.parseQuery(query)
	if w.IgnoreCommon {
		q = slices.DeleteFunc(q, func(a queryTerm) bool {
			texts := len(w.inverted.terms[a.term].postings)
			return texts > commonTexts && texts > w.inverted.count/2
		})
	}
	best := newTop(n, w.compareKeys)
	w.inverted.top(q, best, nil)
	matches := []Match{}
	for _, s := range best.Sorted() {
		matches = append(matches, Match{w.keys[s.number], s.score})
	}
	return matches
}
