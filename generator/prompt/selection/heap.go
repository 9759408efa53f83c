package selection

// heap is a binary heap with the best element first.
type heap[T any] []T

func (h heap[T]) order(better func(a, b *T) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.sink(i, better)
	}
}

// sink moves down an element whose value fell.
func (h heap[T]) sink(i int, better func(a, b *T) bool) {
	for {
		next := 2*i + 1
		if next >= len(h) {
			return
		}
		if right := next + 1; right < len(h) && better(&h[right], &h[next]) {
			next = right
		}
		if !better(&h[next], &h[i]) {
			return
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
}

// pop removes the first element.
func (h *heap[T]) pop(better func(a, b *T) bool) {
	all := *h
	last := len(all) - 1
	all[0] = all[last]
	*h = all[:last]
	h.sink(0, better)
}
