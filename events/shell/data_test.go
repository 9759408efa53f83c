package shell

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func dataFile(t *testing.T, name string) []byte {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	return raw
}

// TestRecordedRunOfCodex reads the command lines of a recording, and counts the actions.
func TestRecordedRunOfCodex(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for line := range bytes.Lines(dataFile(t, "codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl")) {
		var item struct {
			Payload struct{ Type, Arguments string }
		}
		var call struct{ Command []string }
		if json.Unmarshal(line, &item) != nil || item.Payload.Type != "function_call" || json.Unmarshal([]byte(item.Payload.Arguments), &call) != nil {
			continue
		}
		if len(call.Command) != 3 || call.Command[0] != "bash" || call.Command[1] != "-lc" {
			t.Errorf("got the command %q, want bash -lc", call.Command)
			continue
		}
		commands, err := Parse(call.Command[2])
		if work, ok := MainCommand(commands); err != nil || !ok {
			t.Errorf("%s: got %v", call.Command[2], err)
		} else {
			got[work.Action().Name]++
		}
	}
	want := map[string]int{"cat": 3, "find": 1, "ls": 5, "rg": 2, "sed": 23} // counted with grep
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
