package heap_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook/heap"
)

func less(a, b *int) bool    { return *a < *b }
func greater(a, b *int) bool { return *a > *b }

// TestPop takes all values out, the lowest first.
func TestPop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "values")
		h := heap.Heap[int](slices.Clone(values))
		h.Init(less)
		pushed := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "pushed")
		for _, v := range pushed {
			h.Push(v, less)
		}
		var got []int
		for len(h) > 0 {
			got = append(got, h.Pop(less))
		}
		if want := slices.Sorted(slices.Values(slices.Concat(values, pushed))); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestFix keeps the n lowest values: the heap has the highest of them first.
func TestFix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values, n := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "values"), rapid.IntRange(1, 10).Draw(t, "n")
		var h heap.Heap[int]
		for _, v := range values {
			switch {
			case len(h) < n:
				h.Push(v, greater)
			case v < h[0]:
				h[0] = v
				h.Fix(greater)
			}
		}
		slices.Sort(values)
		slices.Sort(h)
		if want := values[:min(n, len(values))]; !slices.Equal(h, want) {
			t.Fatalf("got %v, want %v", h, want)
		}
	})
}
