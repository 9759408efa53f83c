package outcome

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"debrief/events"
)

// dataFile opens a file of the recorded data, or skips the test.
func dataFile(t *testing.T, elem ...string) *os.File {
	dir := os.Getenv("DEBRIEF_DATA")
	if dir == "" {
		t.Skip("DEBRIEF_DATA is not set: no recorded data of other projects")
	}
	f, err := os.Open(filepath.Join(append([]string{dir}, elem...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// tau-bench begins each error of a tool with "Error", so its outputs have a mark.
func TestOfToolAgreesWithTauBench(t *testing.T) {
	t.Parallel()
	var runs []struct {
		Traj []struct {
			Role, Content, Name string
		}
	}
	if err := json.NewDecoder(dataFile(t, "tau-bench", "gpt-4o-airline-trials-0-2.json")).Decode(&runs); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range runs {
		for _, m := range r.Traj {
			if m.Role != "tool" {
				continue
			}
			failed := len(m.Content) > 5 && m.Content[:5] == "Error"
			got := OfTool(&events.ToolCall{Tool: m.Name}, m.Content, Signs{})
			if got.Failed() != failed {
				t.Errorf("%s printed %.200q: got %s", m.Name, m.Content, got)
			}
			if got == events.Unknown && m.Content != "" {
				t.Errorf("%s printed %.200q: got %s", m.Name, m.Content, got)
			}
			count[string(got)]++
		}
	}
	if t.Log(count); count["failure"] != 54 {
		t.Errorf("got %v, want 54 failures", count)
	}
}

// The simulations of tau2 mark each error.
func TestOfToolAgreesWithTau2(t *testing.T) {
	t.Parallel()
	var file struct {
		Simulations []struct {
			Messages []struct {
				Role, Content string
				Error         bool
			}
		}
	}
	if err := json.NewDecoder(dataFile(t, "tau2", "airline-gpt-5.json")).Decode(&file); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, s := range file.Simulations {
		for _, m := range s.Messages {
			if m.Role != "tool" {
				continue
			}
			got := OfTool(nil, m.Content, Signs{})
			if got.Failed() != (m.Error || strings.HasPrefix(m.Content, "Error: ")) { // some errors have no mark
				t.Errorf("printed %.200q: got %s, marked as error: %v", m.Content, got, m.Error)
			}
			count[string(got)]++
		}
	}
	t.Log(count)
	if len(count) == 0 {
		t.Error("no outputs")
	}
}

// Codex reports the exit code beside the output. Here the output alone is compared with it.
func TestOfToolAgreesWithCodex(t *testing.T) {
	t.Parallel()
	calls := map[string]*events.ToolCall{}
	count := map[string]int{}
	lines := bufio.NewScanner(dataFile(t, "codex", "rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl"))
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var line struct {
			Payload struct {
				Type, Name, Arguments, Output string
				CallID                        string `json:"call_id"`
			}
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		p := line.Payload
		switch p.Type {
		case "function_call":
			calls[p.CallID] = &events.ToolCall{Tool: p.Name, Arguments: p.Arguments}
		case "function_call_output":
			var report struct {
				Output   string
				Metadata struct {
					ExitCode int `json:"exit_code"`
				}
			}
			if json.Unmarshal([]byte(p.Output), &report) != nil {
				continue
			}
			full, alone := OfTool(calls[p.CallID], p.Output, Signs{}), OfTool(calls[p.CallID], report.Output, Signs{})
			if full == events.Unknown || full.Failed() != (report.Metadata.ExitCode != 0) {
				t.Errorf("%+v printed %.200q: got %s", calls[p.CallID], p.Output, full)
			}
			if alone.Failed() && report.Metadata.ExitCode == 0 {
				t.Errorf("%+v printed %.200q: got %s from the text alone", calls[p.CallID], report.Output, alone)
			}
			count["text alone: "+string(alone)]++
		}
	}
	t.Log(count)
	if len(count) == 0 {
		t.Error("no outputs")
	}
}

// A transcript of Claude Code marks errors. The text of the others is not an error.
func TestOfToolAgreesWithClaudeCode(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	lines := bufio.NewScanner(dataFile(t, "claude-code", "full-session-two.jsonl"))
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var line struct {
			Message struct {
				Content []struct {
					Type    string
					Content json.RawMessage
					IsError bool `json:"is_error"`
				}
			}
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		for _, p := range line.Message.Content {
			if p.Type != "tool_result" || p.IsError {
				continue
			}
			got := OfTool(nil, string(p.Content), Signs{})
			if got.Failed() {
				t.Errorf("printed %.200q: got %s, which has no mark for an error", p.Content, got)
			}
			count[string(got)]++
		}
	}
	t.Log(count)
	if len(count) == 0 {
		t.Error("no outputs")
	}
}
