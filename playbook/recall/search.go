package recall

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	topByDefault = 10
	// rankOffset is k of reciprocal rank fusion, as Cormack et al. (2009) found it best.
	rankOffset = 60
	// spare is how many candidates more than wanted are looked at in double precision, so that rounding in single
	// precision puts none out: it would take so many within some 1e-6 of the last one wanted.
	spare = 64
	// perLookup is about what it takes to look up a term in a document, over reading one entry of a term's list.
	perLookup = 8
)

// Search finds what a query asks for. Words and vectors each bring their first Top items, and those are fused. More of
// each would let middling items, found by both, push out the best that only one of them can find; so the first by
// vector is always among the hits, whatever its words, and the first by words as well unless all others have both.
//
// In a group it takes time in proportion to what the group holds at the most. It returns a DimensionError for a vector
// that those of its model cannot be compared with; without the vector the query is answered.
func (x *Index) Search(q Query) (Result, error) {
	if q.Top <= 0 {
		q.Top = topByDefault
	}
	vector, err := unit(q.Vector)
	if err != nil {
		return Result{}, fmt.Errorf("search: %w", err)
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := x.fits(q.Model, vector); err != nil {
		return Result{}, fmt.Errorf("search: %w", err)
	}
	s := search{x: x, query: &q, vector: vector, items: len(x.numbers)}
	if q.Group != "" {
		if s.group = x.groups[q.Group]; s.group == nil {
			return Result{}, nil
		}
		if s.items = len(s.group.members); s.items == len(x.numbers) {
			s.group = nil
		}
	}
	q.Top = min(q.Top, s.items)
	byWords := s.byWords()
	byVector, compared := s.byVector()
	return Result{s.fuse(byWords, byVector), s.items - compared}, nil
}

// search is a query on its way.
type search struct {
	x      *Index
	query  *Query
	vector []float32 // of unit length; nil without one
	group  *group    // nil for all items
	items  int       // to search
}

func (s *search) key(number uint32) string { return s.x.items[number].key }

func (s *search) wanted(number uint32) bool {
	return s.query.Exclude == nil || !s.query.Exclude(s.key(number))
}

func (s *search) inGroup(number uint32) bool {
	return slices.ContainsFunc(s.x.items[number].groups, func(m membership) bool { return m.group == s.group })
}

// byWords ranks by BM25. In a group it looks at each member, or at all that have a word if those are fewer.
func (s *search) byWords() []scored {
	v := &s.x.inverted
	terms := v.read(s.query.Text)
	h := ranking{n: s.query.Top, key: s.key, admit: s.wanted}
	if s.group != nil && s.items*len(terms)*perLookup < v.work(terms) {
		for _, number := range s.group.members {
			if score := v.score(terms, number, 0); score > 0 {
				h.offer(number, score)
			}
		}
		return h.sorted()
	}
	if s.group != nil {
		h.admit = func(number uint32) bool { return s.inGroup(number) && s.wanted(number) }
	}
	v.best(terms, &h)
	return h.sorted()
}

// byVector ranks by similarity, and says how many items have one. The many are compared in single precision, the best
// of them in double.
func (s *search) byVector() (ranked []scored, compared int) {
	v := s.x.models[s.query.Model]
	if v == nil || s.vector == nil {
		return nil, 0
	}
	owners, rows := v.owners, []uint32(nil)
	if s.group != nil {
		owners, rows = nil, make([]uint32, 0, s.items)
		for _, number := range s.group.members {
			if it := &s.x.items[number]; it.vectors == v {
				owners, rows = append(owners, number), append(rows, it.row)
			}
		}
	}
	similarities, _ := s.x.similarities.Get().(*[]float32)
	if similarities == nil {
		similarities = new([]float32)
	}
	defer s.x.similarities.Put(similarities)
	*similarities = slices.Grow((*similarities)[:0], len(owners))[:len(owners)]
	v.compare(s.vector, rows, *similarities)

	h := ranking{n: s.query.Top + spare, key: s.key, admit: s.wanted}
	for i, similarity := range *similarities {
		h.offer(owners[i], float64(similarity))
	}
	for i := range h.kept {
		h.kept[i].score = s.similarity(h.kept[i].number)
	}
	ranked = h.sorted()
	ranked = ranked[:min(len(ranked), s.query.Top)]
	enough := slices.IndexFunc(ranked, func(r scored) bool { return r.score < s.query.MinSimilarity })
	if enough >= 0 {
		ranked = ranked[:enough]
	}
	return ranked, len(owners)
}

// similarity is that of an item to the query, 0 if they cannot be compared.
func (s *search) similarity(number uint32) float64 {
	it := &s.x.items[number]
	if s.vector == nil || it.vectors == nil || it.vectors != s.x.models[s.query.Model] {
		return 0
	}
	return dot(s.vector, it.vectors.row(it.row))
}

// fuse makes one order of two. Of equal scores the more similar is the first, then the one whose key is.
func (s *search) fuse(byWords, byVector []scored) []Hit {
	hits := make(map[uint32]*Hit, len(byWords)+len(byVector))
	hit := func(number uint32) *Hit {
		if hits[number] == nil {
			it := &s.x.items[number]
			hits[number] = &Hit{Key: it.key, Excerpt: it.excerpt, Similarity: s.similarity(number)}
		}
		return hits[number]
	}
	for i, r := range byWords {
		h := hit(r.number)
		h.ByWords = i + 1
		h.Score += 1 / float64(rankOffset+i+1)
	}
	for i, r := range byVector {
		h := hit(r.number)
		h.ByVector = i + 1
		h.Score += 1 / float64(rankOffset+i+1)
	}
	fused := make([]Hit, 0, len(hits))
	for _, h := range hits {
		fused = append(fused, *h)
	}
	slices.SortFunc(fused, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Similarity, a.Similarity), strings.Compare(a.Key, b.Key))
	})
	return fused[:min(len(fused), s.query.Top)]
}
