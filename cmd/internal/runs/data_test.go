package runs_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

// The tests here read recordings of other projects, which are stored outside the checkout. They compare the executions with
// counts from the raw JSON that do not use this package.

func dataFile(t *testing.T, name string) []byte {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	return raw
}

func read(t *testing.T, name string, raw []byte) []*events.Execution {
	t.Helper()
	var got []*events.Execution
	report, err := runs.Read(t.Context(), "book", name, bytes.NewReader(raw), func(e *events.Execution) error {
		got = append(got, e)
		return e.Validate()
	})
	if err != nil || report.Runs != len(got) || report.Skipped != 0 {
		t.Fatalf("got report %+v, error %v", report, err)
	}
	return got
}

func calls(e *events.Execution) (all []events.ToolCall) {
	for _, s := range e.Steps {
		all = append(all, s.Calls...)
	}
	return all
}

// rawRun is a tau-bench run from the raw file. Each message has at most one call, and the next message is its result.
type rawRun struct {
	Reward float64
	Traj   []struct {
		Role      string
		Content   *string
		ToolCalls []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
		ToolCallID string `json:"tool_call_id"`
	}
}

const tauFile = "tau-bench/gpt-4o-airline-trials-0-2.json"

func rawRuns(t *testing.T) ([]byte, []rawRun) {
	t.Helper()
	raw := dataFile(t, tauFile)
	var runs []rawRun
	if err := json.Unmarshal(raw, &runs); err != nil {
		t.Fatal(err)
	}
	return raw, runs
}

func TestTauBenchDataIsComplete(t *testing.T) {
	t.Parallel()
	raw, runs := rawRuns(t)
	got := read(t, tauFile, raw)
	if len(got) != len(runs) || len(runs) != 150 {
		t.Fatalf("got %d runs, want %d", len(got), len(runs))
	}
	ids := map[events.ID]bool{}
	steps, total, failed, succeeded := 0, 0, 0, 0
	for i, run := range runs {
		e := got[i]
		ids[e.ID] = true
		var wantCalls []events.ToolCall
		wantSteps, asked := 0, false
		for j, m := range run.Traj {
			switch m.Role {
			case "assistant":
				wantSteps++
				if len(m.ToolCalls) > 1 {
					t.Fatalf("run %d: %d calls in a message, this count knows one", i, len(m.ToolCalls))
				}
				for _, c := range m.ToolCalls {
					answer := run.Traj[j+1]
					if answer.Role != "tool" {
						t.Fatalf("run %d: call %d is not answered by the next message", i, j)
					}
					outcome := events.Success
					if strings.HasPrefix(*answer.Content, "Error") {
						outcome = events.Failure
						failed++
					}
					wantCalls = append(wantCalls, events.ToolCall{Tool: c.Function.Name, Arguments: c.Function.Arguments, Output: *answer.Content, Outcome: outcome})
				}
			case "user":
				if asked {
					wantSteps++
				} else if e.Question != *m.Content {
					t.Errorf("run %d: got question %q, want %q", i, e.Question, *m.Content)
				}
				asked = true
			}
		}
		gotCalls := calls(e)
		for i := range gotCalls {
			if gotCalls[i].Output == "" && gotCalls[i].Outcome == events.Unknown { // an empty output shows nothing
				gotCalls[i].Outcome = events.Success
			}
		}
		if !reflect.DeepEqual(gotCalls, wantCalls) {
			t.Errorf("run %d: got calls %+v\nwant %+v", i, gotCalls, wantCalls)
		}
		if len(e.Steps) != wantSteps {
			t.Errorf("run %d: got %d steps, want %d", i, len(e.Steps), wantSteps)
		}
		if (e.Outcome.Label == events.Success) != (run.Reward == 1) || (e.Outcome.Label == events.Failure) != (run.Reward == 0) {
			t.Errorf("run %d: got outcome %+v from reward %v", i, e.Outcome, run.Reward)
		}
		if e.Outcome.Label == events.Success {
			succeeded++
		}
		steps += wantSteps
		total += len(wantCalls)
	}
	if len(ids) != len(runs) {
		t.Errorf("got %d ids for %d runs", len(ids), len(runs))
	}
	t.Logf("%d runs, %d succeeded, %d steps, %d calls, %d of them failed", len(got), succeeded, steps, total, failed)
}

func TestSWEAgentDataIsComplete(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		question string
		failed   []int // calls, found by reading the files
	}{
		{"ctf-crypto-katy", `We're currently solving the following CTF challenge.`, []int{16}}, // a time-out
		{"ctf-web-i-got-id", `We're currently solving the following CTF challenge.`, nil},
		{"function-calling-simple", "SyntaxError: invalid syntax", nil},
		{"marshmallow-1867-function-calling", "TimeDelta serialization precision", []int{6}},
		{"pydicom-1458", "Pixel Representation attribute should be optional", []int{2, 5, 6, 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			raw := dataFile(t, "swe-agent/"+tt.name+".traj")
			var f struct {
				Trajectory []struct {
					Action, Observation string
					Seconds             float64 `json:"execution_time"`
				}
				History []struct {
					Role      string
					IsDemo    bool                                       `json:"is_demo"`
					ToolCalls []struct{ Function struct{ Name string } } `json:"tool_calls"`
				}
			}
			if err := json.Unmarshal(raw, &f); err != nil {
				t.Fatal(err)
			}
			e := read(t, tt.name+".traj", raw)[0]
			got := calls(e)
			turns := 0
			var functions []string
			for _, m := range f.History {
				if m.Role == "assistant" && !m.IsDemo {
					turns++
					for _, c := range m.ToolCalls {
						functions = append(functions, c.Function.Name)
					}
				}
			}
			if len(got) != turns || len(e.Steps) != turns || len(f.Trajectory) > 0 && len(f.Trajectory) != turns {
				t.Fatalf("got %d calls in %d steps, want %d", len(got), len(e.Steps), turns)
			}
			var failed []int
			for i, c := range got {
				if len(functions) > 0 && c.Tool != functions[i] {
					t.Errorf("call %d: got tool %q, want %q", i, c.Tool, functions[i])
				}
				if c.Outcome == events.Failure {
					failed = append(failed, i)
				}
				if len(f.Trajectory) == 0 {
					continue
				}
				s := f.Trajectory[i]
				if len(functions) == 0 && c.Tool != strings.Fields(s.Action)[0] {
					t.Errorf("call %d: got tool %q for %q", i, c.Tool, s.Action)
				}
				if c.Output != s.Observation || max(c.Duration.Seconds()-s.Seconds, s.Seconds-c.Duration.Seconds()) > 1e-6 {
					t.Errorf("call %d: got output of %d bytes in %v, want %d bytes in %v s", i, len(c.Output), c.Duration, len(s.Observation), s.Seconds)
				}
			}
			if !slices.Equal(failed, tt.failed) {
				t.Errorf("got failed calls %v, want %v", failed, tt.failed)
			}
			if !strings.HasPrefix(e.Question, tt.question) || e.Outcome.Label != events.Unknown {
				t.Errorf("got question %.60q, outcome %+v", e.Question, e.Outcome)
			}
			t.Logf("%d calls, %d failed, usage %+v", len(got), len(failed), e.Usage)
		})
	}
}
