package traces_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"debrief/cmd/internal/traces"
	"debrief/events"
)

// tally holds the counts of a recording.
type tally struct{ runs, steps, calls, failed, succeeded, repaired int }

// taken returns the counts of the executions that this package reads.
func taken(t *testing.T, name string, raw []byte) (sum tally, all []*events.Execution) {
	t.Helper()
	report, err := traces.Read(t.Context(), "book", name, bytes.NewReader(raw), func(e *events.Execution) error {
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
	sum.repaired = report.Repaired
	return sum, all
}

type object = map[string]any

// objects returns the objects of a file with one per line, each from its first brace.
func objects(t *testing.T, raw []byte) (all []object, junk int) {
	t.Helper()
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "{") {
			junk++
		}
		var o object
		if err := json.Unmarshal([]byte(line[strings.Index(line, "{"):]), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all, junk
}

func TestOpenClawDataIsComplete(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]tally{ // found by reading the files
		"b3db607f-7ae8-4089-b806-44800e961672": {runs: 1, steps: 11, calls: 3, failed: 2, repaired: 1},
		"f967d602-325a-4a45-8d54-ee17484cfd96": {runs: 1, steps: 11, calls: 4, failed: 3},
	} {
		raw := dataFile(t, "kayba/"+name+".jsonl")
		var counted tally
		lines, junk := objects(t, raw)
		counted.repaired = junk
		asked := false
		for _, o := range lines {
			if o["type"] == "session" {
				counted.runs++
			}
			m, ok := o["message"].(object)
			if !ok || m["model"] == "delivery-mirror" {
				continue
			}
			switch m["role"] {
			case "user":
				if asked {
					counted.steps++
				}
				asked = true
			case "assistant":
				counted.steps++
				for _, part := range m["content"].([]any) {
					if part.(object)["type"] == "toolCall" {
						counted.calls++
					}
				}
			case "toolResult":
				text := fmt.Sprint(m["content"].([]any)[0].(object)["text"])
				if strings.Contains(text, `"status": "error"`) || strings.Contains(text, "(Command exited with code") {
					counted.failed++
				}
			}
		}
		got, all := taken(t, name, raw)
		if got != counted || got != want {
			t.Errorf("%s: got %+v, counted %+v, want %+v", name, got, counted, want)
		}
		if e := all[0]; e.Session != name || !strings.HasPrefix(e.Question, "A new session was started") {
			t.Errorf("%s: got session %q, task %q, question %.40q", name, e.Session, e.RunID, e.Question)
		}
		if text := fmt.Sprintf("%+v", all[0]); strings.Contains(text, "According to the instructions") || strings.Contains(text, "✅ New session started") {
			t.Errorf("%s: contains text that is not in the recording", name)
		}
	}
}

func TestDynamicCheatsheetDataIsScoredByText(t *testing.T) {
	t.Parallel()
	for name, right := range map[string]int{"baseline": 6, "empty-cheatsheet": 11} {
		raw := dataFile(t, "dynamic-cheatsheet/aime-2024-gpt-4o-"+name+".jsonl")
		var counted tally
		lines, _ := objects(t, raw)
		for _, o := range lines {
			counted.runs++
			counted.steps += len(o["steps"].([]any))
			if o["final_answer"] == o["target"] {
				counted.succeeded++
			}
		}
		got, all := taken(t, name, raw)
		if want := (tally{runs: 30, steps: 30, succeeded: right}); got != counted || got != want {
			t.Errorf("%s: got %+v, counted %+v, want %+v", name, got, counted, want)
		}
		for i, e := range all {
			if e.Question != lines[i]["input"] || e.Answer != lines[i]["final_answer"] || e.Target != "" {
				t.Errorf("%s: run %d: got question %.40q, answer %q, target %q", name, i, e.Question, e.Answer, e.Target)
			}
		}
	}
}

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
