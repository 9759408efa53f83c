package replay

import (
	"testing"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// TestBulletUsesAgreeWithCounts compares the bullets of each sample with the sums of the report, and checks the snapshots.
func TestBulletUsesAgreeWithCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	out := h.run(Config{Epochs: 2, Batch: 16, SnapshotEvery: 20}, Sets{Train: sets(32, 10).Train, Test: sets(32, 10).Test}, Options{Name: "r"})
	type bulletUsage struct{ shown, cited, right int }
	counted := map[playbook.BulletID]bulletUsage{}
	i := 0
	for use := range out.BulletUses {
		s := out.Samples[i]
		if i++; use.Set != s.Set || use.ID != s.ID || use.Epoch != s.Epoch || use.Label != s.Label || use.Version != s.Version {
			t.Errorf("line %d: got %+v, want the sample %+v", i, use, s)
		}
		if use.Set != Train {
			continue
		}
		for _, id := range use.Shown {
			u := counted[id]
			u.shown++
			if use.Label == events.Success {
				u.right++
			}
			counted[id] = u
		}
		for _, id := range use.Cited {
			u := counted[id]
			u.cited++
			counted[id] = u
		}
	}
	if i != len(out.Samples) || i != 2*32+2*10 {
		t.Errorf("got %d lines for %d samples, want one each", i, len(out.Samples))
	}
	cited := 0
	for _, b := range out.Report.Bullets {
		if got, want := counted[b.ID], (bulletUsage{shown: b.Shown, cited: b.Cited, right: b.Right}); got != want {
			t.Errorf("bullet %s: got %+v from the lines, want %+v as in the report", b.ID, got, want)
		}
		cited += b.Cited
	}
	if cited == 0 {
		t.Error("no answer cited a bullet, so the test compares nothing")
	}
	steps := map[int]uint64{}
	for _, s := range out.Report.Snapshots {
		steps[s.Step] = s.Version
	}
	// Snapshots are due after the windows that pass 20, 40 and 60 samples.
	if len(steps) != 3 || steps[32] == 0 || steps[32] >= steps[48] || steps[48] > steps[64] || steps[64] != out.Report.Final.Version {
		t.Errorf("got versions %v by step, want rising ones at 32, 48 and 64", steps)
	}
	var lost report.BulletUse
	(&run{samples: []report.Sample{{ID: "lost"}}, answers: []*answer{nil}}).bulletUses(func(u report.BulletUse) bool { lost = u; return true })
	if lost.ID != "lost" || lost.Shown == nil || lost.Cited == nil {
		t.Errorf("lost sample: got %+v, want a line with empty lists", lost)
	}
}
