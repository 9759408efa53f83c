package recall

import (
	"cmp"
	"slices"

	"debrief/playbook/heap"
)

// scored is the number of a document or item with its score.
type scored struct {
	number uint32
	score  float64
}

// topK keeps the n highest scores that it is offered.
type topK struct {
	n      int
	tie    func(a, b uint32) int    // order of equal scores; nil for the order of the numbers
	accept func(number uint32) bool // called only for candidates that would be kept; nil accepts all
	kept   heap.Heap[scored]        // the worst entry on top
}

// compare returns a negative number if s is better.
func (h *topK) compare(s, other scored) int {
	switch {
	case s.score > other.score:
		return -1
	case s.score < other.score:
		return 1
	case h.tie == nil:
		return cmp.Compare(s.number, other.number)
	}
	return h.tie(s.number, other.number)
}

func (h *topK) worse(a, b *scored) bool { return h.compare(*a, *b) > 0 }

// offer keeps a score if it is among the n highest so far, and removes the worst one then.
func (h *topK) offer(number uint32, score float64) {
	s := scored{number, score}
	full := len(h.kept) >= h.n
	if full && (h.n <= 0 || h.compare(s, h.kept[0]) >= 0) {
		return
	}
	if h.accept != nil && !h.accept(number) {
		return
	}
	if full {
		h.kept[0] = s
		h.kept.Fix(h.worse)
	} else {
		h.kept.Push(s, h.worse)
	}
}

// sorted returns the kept entries, the best first. It must be the last call.
func (h *topK) sorted() []scored {
	slices.SortFunc(h.kept, h.compare)
	return h.kept
}
