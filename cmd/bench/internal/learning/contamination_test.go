package learning

import "testing"

// TestContamination is the short form of the part contamination, with fewer runs. The goals are those of the long form, but one of the ten
// runs may prove the bullet without effect.
func TestContamination(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := contamination{runs: 10, tasks: 3000}
	rows, err := c.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Goal == "at most 5 % proven" && r.Rate.Mean <= 0.1 {
			continue
		}
		if !r.Met {
			t.Errorf("%s: got %+v, want %s", r.Case, r.Rate, r.Goal)
		}
	}
}
