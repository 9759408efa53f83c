package heap_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook/heap"
)

// TestTop keeps the n lowest values of a stream.
func TestTop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values, n := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "values"), rapid.IntRange(0, 10).Draw(t, "n")
		top := heap.NewTop(n, cmp.Compare[int])
		for _, v := range values {
			top.Offer(v)
		}
		got := top.Sorted()
		slices.Sort(values)
		if want := values[:min(n, len(values))]; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
