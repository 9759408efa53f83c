package runs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

// tally holds the counts of a recording.
type tally struct{ runs, steps, calls, failed, succeeded int }

// taken returns the counts of the executions that this package reads.
func taken(t *testing.T, name string, raw []byte) (sum tally, all []*events.Execution) {
	t.Helper()
	report, err := runs.Read(t.Context(), "book", name, bytes.NewReader(raw), func(e *events.Execution) error {
		all = append(all, e)
		sum.runs++
		sum.steps += len(e.Steps)
		for _, c := range calls(e) {
			sum.calls++
			if c.Outcome.Failed() {
				sum.failed++
			}
		}
		if e.Outcome.Label == events.Success {
			sum.succeeded++
		}
		return e.Validate()
	})
	if err != nil || report.Skipped != 0 {
		t.Fatalf("got report %+v, error %v", report, err)
	}
	return sum, all
}

type object = map[string]any

// TestTauBenchAndSWEAgentDataAreCounted compares the counts of the other recordings; data_test.go compares each call.
func TestTauBenchAndSWEAgentDataAreCounted(t *testing.T) {
	t.Parallel()
	var counted tally
	var runs []object
	raw := dataFile(t, tauFile)
	if err := json.Unmarshal(raw, &runs); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		counted.runs++
		if r["reward"] == 1.0 {
			counted.succeeded++
		}
		asked := false
		for _, m := range r["traj"].([]any) {
			m := m.(object)
			switch m["role"] {
			case "assistant":
				counted.steps++
				called, _ := m["tool_calls"].([]any)
				counted.calls += len(called)
			case "user":
				if asked {
					counted.steps++
				}
				asked = true
			case "tool":
				if strings.HasPrefix(fmt.Sprint(m["content"]), "Error") {
					counted.failed++
				}
			}
		}
	}
	if got, _ := taken(t, tauFile, raw); got != counted {
		t.Errorf("got %+v, counted %+v", got, counted)
	}

	for name, want := range map[string]tally{ // errors found by reading the files: see TestSWEAgentDataIsComplete
		"ctf-crypto-katy":                   {failed: 1},
		"ctf-web-i-got-id":                  {},
		"function-calling-simple":           {},
		"marshmallow-1867-function-calling": {failed: 1},
		"pydicom-1458":                      {failed: 4},
	} {
		raw := dataFile(t, "swe-agent/"+name+".traj")
		var f object
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
		want.runs = 1
		for _, m := range f["history"].([]any) {
			if m := m.(object); m["role"] == "assistant" && m["is_demo"] != true {
				want.steps++
				want.calls++
			}
		}
		if got, _ := taken(t, name, raw); got != want {
			t.Errorf("%s: got %+v, counted %+v", name, got, want)
		}
	}
}
