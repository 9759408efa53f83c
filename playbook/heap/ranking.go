package heap

import (
	"iter"
	"slices"
)

// Ranking keeps the first values of a changing set in order. A change of one value costs about as much as a search among
// the kept values, whatever the size of the set. A Ranking of n values keeps up to 2n, so that Fill must read the whole set
// again only after n of them were dropped.
//
// The zero value is not usable. A Ranking is not safe for concurrent use.
type Ranking[T any] struct {
	compare func(a, b T) int
	least   int  // number of values that First returns, if there are as many
	first   []T  // in order
	partial bool // the set may have other values; they come after those of first
}

// NewRanking returns a ranking that was not filled yet. It keeps the first n values by compare, which must not return 0
// for different values.
func NewRanking[T any](n int, compare func(a, b T) int) *Ranking[T] {
	return &Ranking[T]{compare: compare, least: n, partial: true}
}

// Fill replaces the contents of the ranking by the first values of a set.
func (r *Ranking[T]) Fill(set iter.Seq[T]) {
	later := func(a, b *T) bool { return r.compare(*a, *b) > 0 }
	kept := Heap[T](r.first[:0]) // the last one first
	r.partial = false
	for v := range set {
		if len(kept) < 2*r.least {
			kept.Push(v, later)
			continue
		}
		r.partial = true
		if r.compare(v, kept[0]) < 0 {
			kept[0] = v
			kept.Fix(later)
		}
	}
	slices.SortFunc(kept, r.compare)
	r.first = kept
}

// Add adds a value to the set. It must not be in the set.
func (r *Ranking[T]) Add(v T) {
	at, _ := slices.BinarySearchFunc(r.first, v, r.compare)
	if at == len(r.first) && r.partial { // a value that is not kept may come before v
		return
	}
	r.first = slices.Insert(r.first, at, v)
	if len(r.first) > 2*r.least {
		r.first = slices.Delete(r.first, 2*r.least, len(r.first))
		r.partial = true
	}
}

// Drop removes a value from the set.
func (r *Ranking[T]) Drop(v T) {
	if at, found := slices.BinarySearchFunc(r.first, v, r.compare); found {
		r.first = slices.Delete(r.first, at, at+1)
	}
}

// First returns the first values of the set in order: at least n, or all of a smaller set. It returns false if the ranking
// has too few of them and must be filled. The caller must not change the values, and reads them before the next change.
func (r *Ranking[T]) First() ([]T, bool) {
	return r.first, !r.partial || len(r.first) >= r.least
}

// Complete reports whether First is known to return the whole set.
func (r *Ranking[T]) Complete() bool { return !r.partial }
