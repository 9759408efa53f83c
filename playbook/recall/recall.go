// Package recall finds the texts that a query asks for: by their words and by vectors, the two fused by rank.
//
// Words are scored by BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009).
// Vectors are compared with all others, exactly, by cosine similarity. The two orders become one by reciprocal rank
// (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
// 2009): ranks need no common scale, so neither side can drown the other.
//
// Where vectors come from is the caller's choice, and those of different models never meet. Without an embedding model
// there is Hashed, which is lexical: it knows spellings and no meanings.
//
// Nothing here reads a clock or a network. The same puts in the same order give the same answers.
package recall

import "fmt"

// Item is a text to be found. Its text itself is not kept, but for an excerpt.
type Item struct {
	Key    string
	Groups []string // that it can be searched in, such as its session and its book
	Text   string   // the first 64 KiB count
	// Vector is the text as the model sees it, of any length above 0; nil if there is none. One of zeros is as good as
	// none.
	Vector []float32
	Model  string // that made the vector
}

// Query asks for items, by text or vector or both.
type Query struct {
	Text   string // the first 64 KiB count
	Vector []float32
	Model  string // that made the vector
	Group  string // the group to search in; empty is all items
	Top    int    // how many hits at the most; 0 is 10
	// MinSimilarity is what an item has to have to count as found by its vector. One found by its words needs none.
	MinSimilarity float64
	// Exclude leaves out the keys it reports; nil leaves out none. It must not call the index.
	Exclude func(key string) bool
}

// Result is what a query found.
type Result struct {
	Hits []Hit // the best first
	// WithoutVector is how many of the items searched could not be compared by vector: they have none of the query's
	// model, or the query has none. They are found by their words only.
	WithoutVector int
}

// Hit is an item that was found.
type Hit struct {
	Key     string
	Excerpt string  // the beginning of the text, valid UTF-8; ends in "…" where something is missing
	Score   float64 // the sum of 1/(60+rank) over the ranks that it has
	// ByWords and ByVector are the ranks that words and vectors alone give it, 1 for the best; 0 if they did not find it.
	ByWords, ByVector int
	Similarity        float64 // the cosine of its vector and the query's, but for rounding; 0 if one has none
}

// DimensionError is returned for a vector that has another dimension than those of its model that are there.
type DimensionError struct{ Want, Got int }

func (e *DimensionError) Error() string {
	return fmt.Sprintf("vector has dimension %d, those of its model have %d", e.Got, e.Want)
}
