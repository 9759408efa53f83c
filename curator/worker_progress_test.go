package curator

import (
	"testing"

	"debrief/playbook"
)

func TestOutcomesAndChangesOfCommit(t *testing.T) {
	t.Parallel()
	cover := func(outcome string, score float64) playbook.Cover {
		return playbook.Cover{Evidence: &playbook.Evidence{Outcome: outcome, Score: score}}
	}
	change := []*playbook.Delta{
		{Covers: []playbook.Cover{cover("success", 1), cover("failure", 0), cover("unknown", 0), {}}, Ops: []playbook.Op{{Kind: playbook.Tag}, {Kind: playbook.AddExposures}}},
		{Covers: []playbook.Cover{cover("partial", 0.4)}, Ops: []playbook.Op{{Kind: playbook.Confirm}}},
	}
	if outcomes, failures := countOutcomes(change); outcomes != 3 || failures != 2 {
		t.Errorf("got %d outcomes and %d failures, want 3 and 2", outcomes, failures)
	}
	for _, d := range change {
		if d.ChangesBullets() {
			t.Errorf("%+v: votes, outcomes and confirmations count as a change", d.Ops)
		}
	}
	for _, kind := range []playbook.OpKind{playbook.Add, playbook.Update, playbook.SetStatus, playbook.Merge, playbook.Remove} {
		if d := (&playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Tag}, {Kind: kind}}}); !d.ChangesBullets() {
			t.Errorf("%s does not count as a change", kind)
		}
	}
}
