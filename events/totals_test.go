package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestManifestTotals(t *testing.T) {
	t.Parallel()
	m := Manifest{
		Parts: []Part{
			{Kind: PartQuery, Tokens: 5},
			{Kind: PartBullet, Tokens: 10},
			{Kind: PartBullet, Tokens: 20, Keep: 80},
			{Kind: PartPreviousRound, Tokens: 3},
		},
		Omitted: []Omission{
			{Kind: PartBullet, Count: 2, Tokens: 40, Why: "over the limit"},
			{Kind: PartBullet, Count: 1, Why: "withheld"},
			{Kind: PartRecall, Count: 4, Tokens: 400, Why: "irrelevant"},
		},
	}
	want := []PartTotals{
		{PartBullet, 2, 30, 3, 40, []string{"2 over the limit", "1 withheld", "1 truncated"}},
		{PartRecall, 0, 0, 4, 400, []string{"4 irrelevant"}},
		{PartPreviousRound, 1, 3, 0, 0, nil},
		{PartQuery, 1, 5, 0, 0, nil},
	}
	if diff := cmp.Diff(want, m.Totals()); diff != "" {
		t.Errorf("totals: -want +got:\n%s", diff)
	}
}
