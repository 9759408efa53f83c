package learning

import (
	"os"
	"testing"
)

// TestGateAlone is the short form of what bench learning shows of the gate: bullets that hurt go, those that help stay,
// and of those that do nothing hardly any is promoted, though it is looked at after every outcome. DEBRIEF_LONG=1 takes four times as
// many bullets, and 10,000 outcomes of each.
func TestGateAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	p := planting{seeds: 1, bullets: 50, outcomes: 6000}
	if os.Getenv("DEBRIEF_LONG") != "" {
		p.seeds, p.outcomes = 4, 10_000
	}
	rows, err := p.decisions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Case == "no effect" && r.Rate.Mean <= 0.06 { // of 50 to 200 the bound is wide
			continue
		}
		if !r.Met {
			t.Errorf("%s: got %+v, want %s", r.Case, r.Rate, r.Goal)
		}
	}
}
