package generator

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"debrief/generator/selection"
	"debrief/playbook"
	"debrief/playbook/formats"
	"debrief/playbook/recall"
)

// TestPublishedAdviceIsTried: skills that another project published for customer service, and what 150 customers of an
// airline said. What is longer than a sentence bears on some of them and not on all. The files are kept beside the
// checkout and not in it.
func TestPublishedAdviceIsTried(t *testing.T) {
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
	pg := newPage(new(vectors), 0)
	pg.turn(playbook.Restore(1, 0, slices.Values(doc.Bullets)))
	on := make(map[playbook.BulletID]int)
	for _, r := range runs {
		said := ""
		for _, m := range r.Traj {
			if text, ok := m.Content.(string); ok && m.Role == "user" {
				said += text + "\n"
			}
		}
		bears := pg.bears(said)
		for _, b := range doc.Bullets {
			if bears(b) >= selection.Bearing {
				on[b.ID]++
			}
		}
	}
	long := 0
	for _, b := range doc.Bullets {
		if _, words := pg.words.Coverage("").Of(b.Content); words > recall.Sentence {
			long++
			if on[b.ID] == 0 || on[b.ID] == len(runs) {
				t.Errorf("bears on %d of %d: %q", on[b.ID], len(runs), b.Content)
			}
		}
	}
	t.Logf("%d bullets, %d longer than a sentence, %d conversations: %v", len(doc.Bullets), long, len(runs), on)
	if long == 0 {
		t.Error("nothing is longer than a sentence, so the test shows nothing")
	}
}
