package generator

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/formats"
	"debrief/playbook/recall"
)

// The bullets are skills that another project published for customer service. The queries are 150 recorded
// conversations of an airline. Each long bullet must apply to some of them, but not to all. The data files are stored
// beside the checkout.
func TestPublishedBulletsAreApplicable(t *testing.T) {
	t.Parallel()
	read := func(file string) []byte {
		raw, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../shared/data"), file))
		if err != nil {
			t.Skipf("no published data: %v (DEBRIEF_DATA names their folder)", err)
		}
		return raw
	}
	doc, err := formats.Read(read("kayba/skillbook.json"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var runs []struct {
		Traj []struct {
			Role    string
			Content any
		}
	}
	if err := json.Unmarshal(read("tau-bench/gpt-4o-airline-trials-0-2.json"), &runs); err != nil {
		t.Fatal(err)
	}
	ix := newPlaybookIndex(new(embeddingCache), false, 0)
	ix.update(playbook.Restore(1, 0, slices.Values(doc.Bullets)))
	on := make(map[playbook.BulletID]int)
	for _, r := range runs {
		query := ""
		for _, m := range r.Traj {
			if text, ok := m.Content.(string); ok && m.Role == "user" {
				query += text + "\n"
			}
		}
		applies := ix.applicability(query)
		for _, b := range doc.Bullets {
			if applies(b) >= selection.MinApplicability {
				on[b.ID]++
			}
		}
	}
	long := 0
	for _, b := range doc.Bullets {
		if _, words := ix.words.Coverage("").Share(b.Content); words > recall.MaxCoverageWords {
			long++
			if on[b.ID] == 0 || on[b.ID] == len(runs) {
				t.Errorf("applies to %d of %d: %q", on[b.ID], len(runs), b.Content)
			}
		}
	}
	t.Logf("%d bullets, %d longer than a sentence, %d conversations: %v", len(doc.Bullets), long, len(runs), on)
	if long == 0 {
		t.Error("no bullet is longer than a sentence: the test is void")
	}
}
