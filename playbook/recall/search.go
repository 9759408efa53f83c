package recall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	defaultLimit = 10
	// rankOffset is the constant k of reciprocal rank fusion, with the value of Cormack et al. (2009).
	rankOffset = 60
	// rescoreMargin is the number of candidates beyond the limit whose similarity is computed again in double precision. Without them, rounding
	// in single precision could exclude a hit.
	rescoreMargin = 64
	// lookupCost is the number of postings that can be read in the time of looking up one term in one document.
	lookupCost = 8
)

// Search returns the best items for a query. It ranks items by words and by vector, takes the first Limit items of each order, and fuses
// both orders. With longer lists, more items would be in both orders, and could displace the best items of one order.
//
// A search in a group takes time at most proportional to the size of the group. Search returns an error for a vector that
// checkDimension or normalize refuses; the caller can search again without the vector.
func (x *Index) Search(q Query) (Result, error) {
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	vector, err := normalize(q.Vector)
	if err != nil {
		return Result{}, fmt.Errorf("search: %w", err)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := x.checkDimension(q.Model, vector); err != nil {
		return Result{}, fmt.Errorf("search: %w", err)
	}
	s := search{index: x, query: &q, vectors: x.models[q.Model], vector: vector, items: x.words.Len()}
	if q.Group != "" {
		g := x.groups[q.Group]
		if g == nil {
			return Result{}, nil
		}
		s.group, s.items = g.members, len(g.members)
		if s.items == x.words.Len() { // the group has all items
			s.group = nil
		}
	}
	q.Limit = min(q.Limit, s.items)
	byWords := s.byWords()
	byVector, compared := s.byVector()
	return Result{Hits: s.fuse(byWords, byVector), NotCompared: s.items - compared}, nil
}

// search is the state of one query.
type search struct {
	index   *Index
	query   *Query
	vectors *vectors            // of the query's model, nil if no item has one
	vector  []float32           // unit length; nil if the query has none
	group   map[uint32]struct{} // nil for all items
	items   int                 // number of items to search
}

// compareKeys is the order of items with equal scores.
func (s *search) compareKeys(a, b uint32) int {
	keys := s.index.words.keys
	return strings.Compare(keys[a], keys[b])
}

// byWords ranks items by BM25. In a group it either scores each member, or reads all postings of the terms, whichever costs less.
func (s *search) byWords() []scored {
	v := &s.index.words.inverted
	terms := v.parseQuery(s.query.Text)
	best := newTop(s.query.Limit, s.compareKeys)
	if s.group != nil && s.items*len(terms)*lookupCost < v.cost(terms) {
		for number := range s.group {
			if score := v.score(terms, number); score > 0 {
				best.Offer(scored{number, score})
			}
		}
		return best.Sorted()
	}
	var skip func(number uint32) bool
	if s.group != nil {
		skip = func(number uint32) bool {
			_, ok := s.group[number]
			return !ok
		}
	}
	v.top(terms, best, skip)
	return best.Sorted()
}

// byVector ranks items by similarity. It computes all similarities in single precision, and those of the best items again in double precision.
// compared is the number of items that have a vector of the query's model.
func (s *search) byVector() (ranked []scored, compared int) {
	v := s.vectors
	if v == nil || s.vector == nil {
		return nil, 0
	}
	owners := v.owners // numbers of the items to compare
	var rows []uint32  // rows of their vectors, parallel to owners; nil for all rows
	if s.group != nil {
		owners = nil
		rows = make([]uint32, 0, s.items)                          // not nil, even if no item of the group has a vector
		for _, number := range slices.Sorted(maps.Keys(s.group)) { // sorted, because neighbouring rows are faster to read
			if it := &s.index.items[number]; it.vectors == v {
				owners, rows = append(owners, number), append(rows, it.row)
			}
		}
	}
	similarities := v.compare(s.vector, rows)

	likely := newTop(s.query.Limit+rescoreMargin, s.compareKeys)
	for i, similarity := range similarities {
		likely.Offer(scored{owners[i], float64(similarity)})
	}
	best := newTop(s.query.Limit, s.compareKeys)
	for _, r := range likely.Sorted() {
		best.Offer(scored{r.number, s.similarity(r.number)})
	}
	ranked = best.Sorted()
	end := slices.IndexFunc(ranked, func(r scored) bool { return r.score < s.query.MinSimilarity })
	if end >= 0 {
		ranked = ranked[:end]
	}
	return ranked, len(owners)
}

// similarity returns the similarity of an item to the query, 0 if they cannot be compared.
func (s *search) similarity(number uint32) float64 {
	it := &s.index.items[number]
	if s.vector == nil || it.vectors == nil || it.vectors != s.vectors {
		return 0
	}
	return dot(s.vector, it.vectors.row(it.row))
}

// fuse combines both orders by reciprocal rank fusion. Items with equal scores are ordered by similarity, then by key.
func (s *search) fuse(byWords, byVector []scored) []Hit {
	hits := make(map[uint32]*Hit, len(byWords)+len(byVector))
	for _, ranked := range [][]scored{byWords, byVector} {
		for i, r := range ranked {
			if hits[r.number] == nil {
				hits[r.number] = &Hit{Key: s.index.words.keys[r.number], Similarity: s.similarity(r.number)}
			}
			hits[r.number].Score += 1 / float64(rankOffset+i+1)
		}
	}
	fused := make([]Hit, 0, len(hits))
	for _, h := range hits {
		fused = append(fused, *h)
	}
	slices.SortFunc(fused, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Similarity, a.Similarity), strings.Compare(a.Key, b.Key))
	})
	return fused[:min(len(fused), s.query.Limit)]
}
