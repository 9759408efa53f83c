package playbook_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// TestTopKeepsTheFirst checks that Top keeps the n lowest values of a stream.
func TestTopKeepsTheFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values, n := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "values"), rapid.IntRange(0, 10).Draw(t, "n")
		top := playbook.NewTop(n, cmp.Compare[int])
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
