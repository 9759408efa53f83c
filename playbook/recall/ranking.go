package recall

import (
	"cmp"
	"slices"
	"strings"
)

// scored is a document or an item, by its number.
type scored struct {
	number uint32
	score  float64
}

// ranking keeps the n with the highest scores; of equals those whose keys sort first. What is kept is a heap with the worst
// on top.
type ranking struct {
	n     int
	key   func(number uint32) string
	admit func(number uint32) bool // asked only about what would be kept; nil admits all
	kept  []scored
}

// order is negative if s is better.
func (h *ranking) order(s, than scored) int {
	if c := cmp.Compare(than.score, s.score); c != 0 {
		return c
	}
	return strings.Compare(h.key(s.number), h.key(than.number))
}

func (h *ranking) offer(number uint32, score float64) {
	s := scored{number, score}
	full := len(h.kept) >= h.n
	if full && (h.n <= 0 || h.order(s, h.kept[0]) >= 0) {
		return
	}
	if h.admit != nil && !h.admit(number) {
		return
	}
	if full {
		h.kept[0] = s
		h.sink()
		return
	}
	h.kept = append(h.kept, s)
	for i := len(h.kept) - 1; i > 0; {
		above := (i - 1) / 2
		if h.order(h.kept[i], h.kept[above]) <= 0 {
			return
		}
		h.kept[i], h.kept[above] = h.kept[above], h.kept[i]
		i = above
	}
}

func (h *ranking) sink() {
	for i := 0; ; {
		worst := i
		for next := 2*i + 1; next <= 2*i+2 && next < len(h.kept); next++ {
			if h.order(h.kept[next], h.kept[worst]) > 0 {
				worst = next
			}
		}
		if worst == i {
			return
		}
		h.kept[i], h.kept[worst] = h.kept[worst], h.kept[i]
		i = worst
	}
}

// sorted is what was kept, the best first.
func (h *ranking) sorted() []scored {
	slices.SortFunc(h.kept, h.order)
	return h.kept
}
