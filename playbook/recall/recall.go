// Package recall searches texts by words and by vectors and combines both results by rank.
//
// Words are scored by BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009).
// Vectors are compared exactly with all others by cosine similarity. Reciprocal rank fusion combines the two orders
// (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
// 2009). Ranks need no common scale, so neither order can dominate the other.
//
// The caller supplies the vectors. Vectors of different models are never compared. HashedVector is a substitute for an
// embedding model. It is lexical: it compares spellings, not meanings.
//
// The package reads no clock and no network. The same puts in the same order give the same results.
package recall

// Item is a text in an Index. The Index does not keep the text.
type Item struct {
	Key    string   // identifies the item
	Groups []string // groups that contain the item, such as its session and its book
	Text   string   // only the first 64 KiB are read
	// Vector is the embedding of the text, nil without one. A vector of zeros is ignored.
	Vector []float32
	Model  string // the model that computed the vector
}

// Query searches by text, by vector or by both.
type Query struct {
	Text   string // only the first 64 KiB are read
	Vector []float32
	Model  string // the model that computed the vector
	Group  string // the group to search in; empty is all items
	Limit  int    // maximum number of hits; 0 is 10
	// MinSimilarity is the minimum cosine similarity of an item found by its vector. It does not apply to items found
	// by words.
	MinSimilarity float64
}

// Result is the result of a search.
type Result struct {
	Hits []Hit // ordered by score, the best first
	// NotCompared is the number of searched items that were not compared by vector, because they have no vector of
	// the query's model or the query has none. They can be found only by words.
	NotCompared int
}

// Hit is an item in a result.
type Hit struct {
	Key        string
	Score      float64 // the sum of 1/(60+rank) over its ranks by words and by vectors
	Similarity float64 // cosine similarity to the query; 0 if one of the vectors is missing
}
