package conversation

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"debrief/events"
)

func dataFile(t testing.TB, name string) []byte {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	return raw
}

// run is a recorded agent run.
type run struct {
	question  string
	steps     []events.Step
	succeeded bool
}

// tauRuns returns 150 runs of an airline help desk. Each message has at most one call, and the next message answers
// it.
func tauRuns(t testing.TB) (runs []run) {
	t.Helper()
	var file []struct {
		Reward float64
		Traj   []struct {
			Role      string
			Content   string
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(dataFile(t, "tau-bench/gpt-4o-airline-trials-0-2.json"), &file); err != nil {
		t.Fatal(err)
	}
	for _, f := range file {
		r := run{succeeded: f.Reward == 1}
		for _, m := range f.Traj {
			switch {
			case m.Role == "user" && r.question == "":
				r.question = m.Content
			case m.Role == "user":
				r.steps = append(r.steps, user(m.Content))
			case m.Role == "tool":
				c := &r.steps[len(r.steps)-1].Calls[0]
				c.Output = m.Content
				if c.Outcome = events.Success; strings.HasPrefix(m.Content, "Error") {
					c.Outcome = events.Failure
				}
			case m.Role == "assistant":
				s := events.Step{Speaker: "assistant", Text: m.Content}
				for _, c := range m.ToolCalls[:min(len(m.ToolCalls), 1)] {
					s.Calls = []events.ToolCall{{Tool: c.Function.Name, Arguments: c.Function.Arguments, Outcome: events.Unknown}}
				}
				r.steps = append(r.steps, s)
			}
		}
		runs = append(runs, r)
	}
	return runs
}

// TestStuckOnRecordedRuns calls Stuck after every step, as a service does for each context.
func TestStuckOnRecordedRuns(t *testing.T) {
	t.Parallel()
	var stuck, all [2]int // failed and successful runs
	lines, high := 0, 0
	runs := tauRuns(t)
	for _, r := range runs {
		outcome := 0
		if r.succeeded {
			outcome = 1
		}
		all[outcome]++
		for n := range r.steps {
			if got, yes := Stuck(r.steps[:n+1]); yes {
				stuck[outcome]++
				t.Logf("step %d of %d: %s", n+1, len(r.steps), got.Text)
				break
			}
		}
		for _, l := range Lines(r.steps, r.question) {
			checkText(t, l.Text)
			if lines++; l.Relevance == events.High {
				high++
			}
		}
	}
	t.Logf("stuck at some point: %d of %d failed runs, %d of %d successful ones; %d of %d lines of high relevance",
		stuck[0], all[0], stuck[1], all[1], high, lines)
	if stuck[0] == 0 || stuck[1]*all[0] > stuck[0]*all[1] {
		t.Errorf("got %d of %d failed runs and %d of %d successful ones, want more of the failed", stuck[0], all[0], stuck[1], all[1])
	}
}

// TestLinesOfRecordedCommands reads SWE-agent's shell sessions, whose arguments are not JSON.
func TestLinesOfRecordedCommands(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ctf-crypto-katy", "ctf-web-i-got-id", "marshmallow-1867-function-calling", "pydicom-1458"} {
		var file struct {
			Trajectory []struct{ Action, Observation string }
		}
		if err := json.Unmarshal(dataFile(t, "swe-agent/"+name+".traj"), &file); err != nil {
			t.Fatal(err)
		}
		var steps []events.Step
		whole, short := 0, 0
		for _, s := range file.Trajectory {
			tool, arguments, _ := strings.Cut(strings.TrimSpace(s.Action), " ")
			steps = append(steps, step(call(tool, arguments, s.Observation)))
			whole += len(s.Action) + len(s.Observation)
		}
		for _, l := range Lines(steps, "") {
			checkText(t, l.Text)
			short += len(l.Text)
		}
		if got, yes := Stuck(steps); yes {
			t.Errorf("%s: got stuck at the end of a finished run: %s", name, got.Text)
		}
		if short*5 > whole {
			t.Errorf("%s: got %d bytes of %d, want less than a fifth", name, short, whole)
		}
	}
}
