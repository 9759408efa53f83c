package generator

import (
	"fmt"
	"testing"

	"debrief/playbook"
)

// citing returns a delta in which a task cited bullets with success.
func citing(sample, question string, ids ...playbook.BulletID) *playbook.Delta {
	d := &playbook.Delta{Covers: []playbook.Cover{{ID: sample, Evidence: &playbook.Evidence{Execution: sample, Sample: sample, Excerpt: question}}}}
	for _, id := range ids {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: 1, Support: []int{0}})
	}
	return d
}

func foldAll(deltas ...*playbook.Delta) *taskEvidence {
	e := newTaskEvidence(nil, "b")
	for _, d := range deltas {
		e.fold(d)
		e.rankSupported()
	}
	return e
}

// TestRankingBacksOffToFrequency ranks bullets that no near task supports by the number of their tasks.
func TestRankingBacksOffToFrequency(t *testing.T) {
	t.Parallel()
	e := foldAll(
		citing("1", "taxi to the airport", "rides"), citing("2", "night in Rome", "hotels"), citing("3", "night in Oslo", "hotels"),
		citing("4", "sandwich", "meals"), citing("5", "pens", "gone"), &playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "gone"}}},
	)
	for query, want := range map[string]string{
		"a taxi":       "[rides hotels meals]",
		"a locomotive": "[hotels meals rides]",
	} {
		var got []playbook.BulletID
		for _, r := range e.addSupported(e.index.Nearest(query, 10), 10) {
			got = append(got, r.Bullet)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	if got := e.addSupported(e.index.Nearest("a taxi", 2), 2); len(got) != 2 {
		t.Errorf("got %d bullets, want 2", len(got))
	}
}
