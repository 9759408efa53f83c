package playbook

import "slices"

// Top keeps the first n of the values that it is offered. It costs less than sorting all values if few of many are kept.
type Top[T any] struct {
	n       int
	compare func(a, b T) int
	kept    []T // at most 2n; the first n of all values are among them
	full    bool
	last    T // if full: the last of the first n values at the time of the last sort
}

// NewTop returns a Top without values. compare orders the values; if it returns 0 for two of them, either may be kept.
func NewTop[T any](n int, compare func(a, b T) int) *Top[T] { return &Top[T]{n: n, compare: compare} }

// Offer offers a value. It returns false if n of the values offered before come first.
func (t *Top[T]) Offer(v T) bool {
	if t.n <= 0 || t.full && t.compare(v, t.last) >= 0 {
		return false
	}
	if t.kept = append(t.kept, v); len(t.kept) >= 2*t.n {
		t.sort()
	}
	return true
}

// sort sorts the kept values and drops those after the first n.
func (t *Top[T]) sort() {
	slices.SortFunc(t.kept, t.compare)
	if len(t.kept) >= t.n && t.n > 0 {
		t.kept = t.kept[:t.n]
		t.full, t.last = true, t.kept[t.n-1]
	}
}

// Sorted returns the first n values in order. Offer must not be called after it.
func (t *Top[T]) Sorted() []T {
	t.sort()
	return t.kept
}
