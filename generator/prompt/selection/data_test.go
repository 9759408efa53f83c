package selection_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/formats"
)

// TestPublishedPlaybooksAreNotShownTwice reads playbooks published by other projects. The data is outside the
// repository. The playbooks contain dozens of copies.
func TestPublishedPlaybooksAreNotShownTwice(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"ace/appworld_offline_trained_no_gt_playbook.txt", "ace/appworld_online_trained_playbook.txt"} {
		raw, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data"), file))
		if err != nil {
			t.Skipf("no published playbooks: %v (DEBRIEF_DATA names their folder)", err)
		}
		doc, err := formats.Read(raw, "", nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		p := playbook.Restore(1, 0, slices.Values(doc.Bullets))
		texts := map[string]int{}
		for _, b := range doc.Bullets {
			texts[b.Content]++
		}
		var copies selection.Ranking
		for _, b := range doc.Bullets {
			if texts[b.Content] > 1 {
				copies = append(copies, selection.Ranked{Bullet: b.ID, Score: 1})
			}
		}
		s := indexOf(p).Select(selection.Options{Tokens: 4000, MaxBullets: 30, Rankings: rank(copies)})
		copied, seen := 0, map[string]bool{}
		for _, b := range s.Bullets {
			if texts[b.Content] > 1 {
				copied++
			}
			if seen[b.Content] {
				t.Errorf("%s: shown twice: %q", file, b.Content)
			}
			seen[b.Content] = true
		}
		if copied < 3 || s.Tokens > 4000 || len(s.Bullets) < 15 {
			t.Errorf("%s: %d bullets, %d of them with copies, %d tokens", file, len(s.Bullets), copied, s.Tokens)
		}
	}
}
