package conversation

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReferredInRecordedConversations counts the user messages of 150 recorded airline runs that refer back. Few of
// them do. All of those were checked by hand and contain one of the phrases.
func TestReferredInRecordedConversations(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, "tau-bench/gpt-4o-airline-trials-0-2.json"))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	var runs []struct {
		Traj []struct {
			Role    string
			Content string
		}
	}
	if err := json.Unmarshal(raw, &runs); err != nil {
		t.Fatal(err)
	}
	phrases := []string{"same", "again", "as i mentioned", "earlier", "get back to"}
	messages, refer := 0, 0
	for _, run := range runs {
		var earlier []string
		for _, m := range run.Traj {
			if m.Role == "user" {
				messages++
				if referred(m.Content, earlier) >= 0 {
					refer++
					if !slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(strings.ToLower(m.Content), p) }) {
						t.Errorf("%q contains no reference", m.Content)
					}
				}
			}
			if m.Role == "user" || m.Role == "assistant" {
				earlier = append(earlier, m.Content)
			}
		}
	}
	t.Logf("%d of %d messages refer back", refer, messages)
	if messages < 1000 || refer < 10 || refer > 30 {
		t.Errorf("got %d of %d messages that refer back, want 10 to 30 of over 1,000", refer, messages)
	}
}
