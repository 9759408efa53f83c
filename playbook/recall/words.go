package recall

import "iter"

// Words finds texts by their words. The zero value is empty. Reads may run at the same time, a change excludes all else.
type Words struct {
	inverted inverted
	numbers  map[string]uint32
	keys     []string // by number
	idle     []uint32 // numbers that are free
}

// Match is a text and its score: BM25 over the best that a text made of known words could reach for the query. It is
// above 0 and below 1. Every word of the query that some text has counts in it, so what has all of them once, in a text
// of middling length, has about 0.45, and no two texts become equal because both are good.
type Match struct {
	Key   string
	Score float64
}

// Len is the number of texts.
func (w *Words) Len() int { return len(w.numbers) }

// Put adds a text, or replaces the one of that key. The first 64 KiB count.
func (w *Words) Put(key, text string) {
	w.Drop(key)
	if w.numbers == nil {
		w.numbers = make(map[string]uint32)
	}
	number := uint32(len(w.keys))
	if n := len(w.idle); n > 0 {
		number, w.idle = w.idle[n-1], w.idle[:n-1]
		w.keys[number] = key
	} else {
		w.keys = append(w.keys, key)
	}
	w.numbers[key] = number
	w.inverted.put(number, text)
}

// Drop removes the text of a key, if there is one.
func (w *Words) Drop(key string) {
	number, ok := w.numbers[key]
	if !ok {
		return
	}
	w.inverted.drop(number)
	delete(w.numbers, key)
	w.keys[number] = ""
	w.idle = append(w.idle, number)
}

// Each yields every text that has a word of the query, in no order. It takes time in proportion to the texts that have
// one, word by word.
func (w *Words) Each(query string) iter.Seq[Match] {
	return func(yield func(Match) bool) {
		q := w.inverted.read(query)
		s := w.inverted.take()
		defer w.inverted.giveBack(s)
		for _, a := range q {
			w.inverted.add(s, a)
		}
		for _, number := range s.found {
			if !yield(Match{w.keys[number], s.of[number]}) {
				return
			}
		}
	}
}

// Top is the n texts with the highest scores, the best first; of equals those whose keys sort first.
func (w *Words) Top(query string, n int) []Match {
	q := w.inverted.read(query)
	h := ranking{n: n, key: func(number uint32) string { return w.keys[number] }}
	w.inverted.best(q, &h)
	matches := make([]Match, len(h.kept))
	for i, s := range h.sorted() {
		matches[i] = Match{w.keys[s.number], s.score}
	}
	return matches
}
