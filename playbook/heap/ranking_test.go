package heap_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook/heap"
)

// TestRanking changes a set and compares the ranking with the sorted set after each change. It fills the ranking only if
// the ranking asks for it.
func TestRanking(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "kept")
		r := heap.NewRanking(n, cmp.Compare[int])
		set, fills := map[int]bool{}, 0
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			v := rapid.IntRange(0, 30).Draw(t, "value")
			if set[v] {
				r.Drop(v)
				delete(set, v)
			} else {
				r.Add(v)
				set[v] = true
			}
			sorted := make([]int, 0, len(set))
			for v := range set {
				sorted = append(sorted, v)
			}
			slices.Sort(sorted)
			first, ok := r.First()
			if !ok {
				fills++
				r.Fill(slices.Values(sorted))
				if first, ok = r.First(); !ok {
					t.Fatal("a filled ranking must be filled again")
				}
			}
			if len(first) > len(sorted) || len(first) < min(n, len(sorted)) || !slices.Equal(first, sorted[:len(first)]) {
				t.Fatalf("first %v of %v", first, sorted)
			}
			if r.Complete() && len(first) != len(sorted) {
				t.Fatalf("complete with %v of %v", first, sorted)
			}
		}
	})
}

// TestRankingReadsTheSetRarely drops values of a large set. A ranking of n values that reads the set reads it again after
// n drops at the earliest.
func TestRankingReadsTheSetRarely(t *testing.T) {
	t.Parallel()
	const n, size = 10, 1000
	values := make([]int, size)
	for i := range values {
		values[i] = i
	}
	r := heap.NewRanking(n, cmp.Compare[int])
	fills := 0
	for len(values) > 0 {
		if _, ok := r.First(); !ok {
			fills++
			r.Fill(slices.Values(values))
		}
		r.Drop(values[0])
		values = values[1:]
	}
	if fills > size/n {
		t.Errorf("read the set %d times for %d changes", fills, size)
	}
}
