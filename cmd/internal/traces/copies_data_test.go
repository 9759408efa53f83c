package traces_test

import (
	"testing"

	"debrief/events"
)

// TestCopiesCountOnce checks that a renamed copy of a recorded file has the runs of the file, and no others.
func TestCopiesCountOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{tauFile, "swe-agent/pydicom-1458.traj", "claude-code/full-session-two.jsonl"} {
		raw := dataFile(t, name)
		ids, tasks := map[events.ID]bool{}, map[string]bool{}
		runs := read(t, name, raw)
		for _, e := range runs {
			ids[e.ID], tasks[e.Origin.Task] = true, true
		}
		if len(ids) != len(runs) {
			t.Errorf("%s: got %d ids of %d runs", name, len(ids), len(runs))
		}
		for _, e := range read(t, "copies/renamed.json", raw) {
			if !ids[e.ID] || !tasks[e.Origin.Task] {
				t.Errorf("%s: the copy has the new run %s of task %q", name, e.RunID, e.Origin.Task)
			}
		}
	}
}
