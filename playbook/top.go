package playbook

import "slices"

// Top keeps the first n of the values that it is offered. It costs less than sorting all values if few of many are kept.
type Top[T any] struct {
	n       int
	compare func(a, b T) int
	kept    []T // a binary heap: kept[0] comes last in the order
}

// NewTop returns a Top without values. compare orders the values; if it returns 0 for two of them, either may be kept.
func NewTop[T any](n int, compare func(a, b T) int) *Top[T] { return &Top[T]{n: n, compare: compare} }

// Offer keeps a value if fewer than n are kept, or if it comes before the last kept value. It then replaces that value. Offer reports
// whether it keeps the value.
func (t *Top[T]) Offer(v T) bool {
	switch {
	case len(t.kept) < t.n:
		t.kept = append(t.kept, v)
		t.rise(len(t.kept) - 1)
	case t.n > 0 && t.compare(v, t.kept[0]) < 0:
		t.kept[0] = v
		t.sink(0)
	default:
		return false
	}
	return true
}

// Sorted returns the kept values in order. Offer must not be called after it.
func (t *Top[T]) Sorted() []T {
	slices.SortFunc(t.kept, t.compare)
	return t.kept
}

// rise moves the value at an index up to its place in the heap.
func (t *Top[T]) rise(i int) {
	for i > 0 {
		above := (i - 1) / 2
		if t.compare(t.kept[i], t.kept[above]) <= 0 {
			return
		}
		t.kept[i], t.kept[above] = t.kept[above], t.kept[i]
		i = above
	}
}

// sink moves the value at an index down to its place in the heap.
func (t *Top[T]) sink(i int) {
	for {
		next := 2*i + 1
		if next >= len(t.kept) {
			return
		}
		if right := next + 1; right < len(t.kept) && t.compare(t.kept[right], t.kept[next]) > 0 {
			next = right
		}
		if t.compare(t.kept[next], t.kept[i]) <= 0 {
			return
		}
		t.kept[i], t.kept[next] = t.kept[next], t.kept[i]
		i = next
	}
}
