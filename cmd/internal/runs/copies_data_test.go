package runs_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

// TestCopiesCountOnce checks that a renamed copy of a recorded file has the runs of the file, and no others.
func TestCopiesCountOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	for _, name := range []string{tauFile, "swe-agent/pydicom-1458.traj", "claude-code/full-session-two.jsonl", "openhands/evaluation-output-first.jsonl", "openhands/runtime-trajectory-basic.json"} {
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

// TestOverlappingFilesCountOnce checks that files that share elements have the runs and the calls of the whole file, and no others.
func TestOverlappingFilesCountOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, name := range []string{tauFile, "openhands/runtime-trajectory-basic.json"} {
		whole := dataFile(t, name)
		var elements []json.RawMessage
		if err := json.Unmarshal(whole, &elements); err != nil {
			t.Fatal(err)
		}
		list := func(part []json.RawMessage) []byte {
			raw, err := json.Marshal(part)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		n := len(elements)
		files := map[string][][]byte{"in order": {list(elements[:n*2/3]), list(elements[n/3:])}, "a growing file": {list(elements[:n/2]), whole, whole}}
		if name != tauFile {
			delete(files, "in order") // a trajectory has a beginning
		}
		want := countOnce(t, name, whole)
		for order, parts := range files {
			if got := countOnce(t, "renamed.json", parts...); got.calls != want.calls || name == tauFile && got != want {
				t.Errorf("%s, %s: got %+v, want %+v", name, order, got, want)
			}
		}
	}
}

type runsAndCalls struct{ runs, calls int }

// countOnce reads files with one Reader and counts the runs with different ids and their calls.
func countOnce(t *testing.T, name string, files ...[]byte) (n runsAndCalls) {
	t.Helper()
	r, seen := &runs.Reader{Book: "book"}, map[events.ID]bool{}
	for _, raw := range files {
		_, err := r.Read(t.Context(), name, bytes.NewReader(raw), func(e *events.Execution) error {
			if seen[e.ID] {
				return nil
			}
			seen[e.ID] = true
			n.runs++
			for _, s := range e.Steps {
				n.calls += len(s.Calls)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return n
}
