// Package heap keeps values in a binary heap: the first value is known, and the others are not sorted. If few of many values
// are needed, this is cheaper than sorting. To keep the n best values of a stream, use a heap with the worst value first, and
// replace the first value by each new one that is better.
package heap

// Heap is a binary heap with its first value at index 0. Its methods take the order of the values: before reports
// whether a comes before b. It must be the same in all calls.
type Heap[T any] []T

// Init orders the values.
func (h Heap[T]) Init(before func(a, b *T) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i, before)
	}
}

// Fix restores the order after the first value was replaced or has changed so that it may come later.
func (h Heap[T]) Fix(before func(a, b *T) bool) { h.sink(0, before) }

// Push adds a value.
func (h *Heap[T]) Push(value T, before func(a, b *T) bool) {
	*h = append(*h, value)
	all := *h
	for i := len(all) - 1; i > 0; {
		above := (i - 1) / 2
		if !before(&all[i], &all[above]) {
			return
		}
		all[i], all[above] = all[above], all[i]
		i = above
	}
}

// Pop removes the first value and returns it. The heap must not be empty.
func (h *Heap[T]) Pop(before func(a, b *T) bool) T {
	all := *h
	first, last := all[0], len(all)-1
	all[0] = all[last]
	*h = all[:last]
	h.sink(0, before)
	return first
}

// sink moves a value down to its place.
func (h Heap[T]) sink(i int, before func(a, b *T) bool) {
	for {
		next := 2*i + 1
		if next >= len(h) {
			return
		}
		if right := next + 1; right < len(h) && before(&h[right], &h[next]) {
			next = right
		}
		if !before(&h[next], &h[i]) {
			return
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
}
