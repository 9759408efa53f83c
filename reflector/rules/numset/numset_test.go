package numset_test

import (
	"math"
	"slices"
	"testing"

	"debrief/reflector/rules/numset"
)

func FuzzSet(f *testing.F) {
	f.Add(uint32(0), uint32(0), uint32(1), uint32(127))
	f.Add(uint32(128), uint32(math.MaxUint32), uint32(16384), uint32(16383))
	f.Fuzz(func(t *testing.T, a, b, c, other uint32) {
		numbers := []uint32{c, a, b, a}
		want := slices.Compact(slices.Sorted(slices.Values(numbers)))
		s := numset.New(numbers)
		if got := slices.Collect(s.All()); !slices.Equal(got, want) {
			t.Errorf("got %d, want %d", got, want)
		}
		for _, n := range []uint32{a, b, c, other} {
			if got := s.Contains(n); got != slices.Contains(want, n) {
				t.Errorf("Contains(%d): got %v in %d", n, got, want)
			}
		}
		if numset.New([]uint32{a, b, c}) != s {
			t.Error("equal sets differ")
		}
	})
}
