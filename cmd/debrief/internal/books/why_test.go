package books

import (
	"testing"

	"debrief/playbook/history"

	book "debrief/playbook"
)

// TestMergeOutcomes merges the thousands of outcomes of a bullet in an experiment into one event.
func TestMergeOutcomes(t *testing.T) {
	t.Parallel()
	outcomes := func(number int, seen ...book.Exposure) history.Event {
		return history.Event{Kind: book.AddExposures, Bullet: "a", Op: book.Op{Kind: book.AddExposures, ExperimentNumber: number, Exposures: seen}}
	}
	all := []history.Event{outcomes(1, book.Exposure{Arm: book.ArmShown, Score: 10}, book.Exposure{Arm: book.ArmWithheld})}
	for range 1000 {
		all = append(all, outcomes(1, book.Exposure{Arm: book.ArmShown, Score: 5}))
	}
	all = append(
		all, outcomes(1, book.Exposure{Arm: book.ArmShown, Score: 10, Undo: true}, book.Exposure{Arm: book.ArmShown, Score: 5}),
		outcomes(2, book.Exposure{Arm: book.ArmOpen, Score: 10}),
	)
	some := mergeOutcomes(all)
	if len(some) != 2 {
		t.Fatalf("got %d events, want one for each experiment", len(some))
	}
	if got, want := outcomeSummary(some[0].Op.Exposures), "outcomes: shown 1001 with a mean score of 0.50, withheld 1 with a mean score of 0.00, 1 outcome corrected"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(all[0].Op.Exposures) != 2 {
		t.Error("mergeOutcomes changed its argument")
	}
}
