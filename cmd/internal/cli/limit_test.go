package cli

import (
	"slices"
	"testing"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	all := []int{1, 2, 3}
	for _, test := range []struct {
		limit       int
		first, last []int
		others      int
	}{
		{0, all, all, 0},
		{-1, all, all, 0},
		{1, []int{1}, []int{3}, 2},
		{2, []int{1, 2}, []int{2, 3}, 1},
		{3, all, all, 0},
		{4, all, all, 0},
	} {
		if got, more := First(all, test.limit); !slices.Equal(got, test.first) || more != test.others {
			t.Errorf("first %d: got %v and %d more", test.limit, got, more)
		}
		if got, older := Last(all, test.limit); !slices.Equal(got, test.last) || older != test.others {
			t.Errorf("last %d: got %v and %d older", test.limit, got, older)
		}
	}
}
