package history_test

import (
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// TestMergeExposures merges the thousands of outcomes of a bullet in an experiment into one event.
func TestMergeExposures(t *testing.T) {
	t.Parallel()
	outcomes := func(number int, seen ...playbook.Exposure) history.Event {
		return history.Event{Kind: playbook.AddExposures, Bullet: "a", Op: playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: number, Exposures: seen}}
	}
	all := []history.Event{outcomes(1, playbook.Exposure{Arm: playbook.ArmShown, Score: 10}, playbook.Exposure{Arm: playbook.ArmWithheld})}
	for range 1000 {
		all = append(all, outcomes(1, playbook.Exposure{Arm: playbook.ArmShown, Score: 5}))
	}
	all = append(
		all, outcomes(1, playbook.Exposure{Arm: playbook.ArmShown, Score: 10, Undo: true}, playbook.Exposure{Arm: playbook.ArmShown, Score: 5}),
		outcomes(2, playbook.Exposure{Arm: playbook.ArmOpen, Score: 10}),
	)
	some := history.MergeExposures(all)
	if len(some) != 2 {
		t.Fatalf("got %d events, want one for each experiment", len(some))
	}
	if n := len(some[0].Op.Exposures); n != 1004 || some[1].Op.ExperimentNumber != 2 {
		t.Errorf("got %d outcomes in the first event and experiment %d in the second, want 1004 and 2", n, some[1].Op.ExperimentNumber)
	}
	if len(all[0].Op.Exposures) != 2 {
		t.Error("MergeExposures changed its argument")
	}
}
