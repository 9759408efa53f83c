package recall

import (
	"cmp"

	"debrief/playbook/heap"
)

// scored is the number of a document or item with its score.
type scored struct {
	number uint32
	score  float64
}

// newTop keeps the n highest scores. tie orders equal scores.
func newTop(n int, tie func(a, b uint32) int) *heap.Top[scored] {
	return heap.NewTop(n, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), tie(a.number, b.number)) })
}
