package similar

import (
	"slices"
	"testing"
)

func TestSameSubject(t *testing.T) {
	t.Parallel()
	wordings := []string{ // of a public bug report
		"Add the pier fee of one unit to each mooring price.",
		"Each mooring price needs the pier fee of one unit on top.",
		"Do not forget the pier fee: one unit more for every mooring price.",
		"A mooring price is incomplete without the pier fee of one unit; add it.",
		"Include one unit of pier fee when you state a mooring price.",
		"Remember to add the pier fee, one unit, to the price of a mooring.",
	}
	for _, tt := range []struct {
		name  string
		texts []string
		want  [][]int
	}{
		{"wordings of one rule", wordings, [][]int{{0, 1, 2, 3, 4, 5}}},
		{"a contradiction", []string{"Round each line of an invoice down.", "Tax comes last.", "Round each line of an invoice up."}, [][]int{{0, 2}}},
		{"a contradiction in a number", []string{"The pier fee of a mooring is 1 unit.", "The pier fee of a mooring is 2 units."}, [][]int{{0, 1}}},
		{"a negation", []string{"Add the pier fee to each mooring price.", "Never add the pier fee to a mooring price."}, [][]int{{0, 1}}},
		{"rules for two cases with names", []string{"For currency CHF the currency fee is 8 % of the amount.", "For currency EUR the currency fee is 3 % of the amount."}, nil},
		{"rules on two subjects", []string{"For delivery by courier the surcharge is 2.50.", "Round the amount once, at the end.", "Gold customers get 7 % off."}, nil},
		{"short texts", []string{"Check twice.", "Check twice!"}, nil},
		{"two groups", []string{wordings[0], "Round each line of an invoice down.", wordings[1], "Round each line of an invoice up."}, [][]int{{0, 2}, {1, 3}}},
		{"none", nil, nil},
	} {
		var got [][]int
		items := make([]int, len(tt.texts))
		for i := range items {
			items[i] = i
		}
		got = SameSubject(items, func(i int) string { return tt.texts[i] })
		if !slices.EqualFunc(got, tt.want, slices.Equal[[]int]) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
