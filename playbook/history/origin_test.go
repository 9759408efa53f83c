package history_test

import (
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// TestOriginOfMergeWithoutSupport checks that a merge which rests on its bullets alone keeps the source of the bullet.
func TestOriginOfMergeWithoutSupport(t *testing.T) {
	t.Parallel()
	cover := func(id string) playbook.Cover {
		return playbook.Cover{ID: id, Seq: 1, Evidence: &playbook.Evidence{Execution: id}}
	}
	deltas := []*playbook.Delta{
		{Version: 1, Author: history.Curator, Covers: []playbook.Cover{cover("first"), cover("second")}, Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: "a-00001", Section: "a", Content: "one", Support: []int{0}},
			{Kind: playbook.Add, Bullet: "a-00002", Section: "a", Content: "two", Support: []int{1}},
		}},
		{Version: 2, Author: history.Curator, Covers: []playbook.Cover{cover("stranger")}, Ops: []playbook.Op{
			{Kind: playbook.Merge, Bullet: "a-00001", Sources: []playbook.BulletID{"a-00002"}, Content: "one, two"},
		}},
	}
	p := new(playbook.Playbook)
	for _, d := range deltas {
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	origins, err := history.Origins(func(fn func(*playbook.Delta) error) error {
		for _, d := range deltas {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	}, p)
	if err != nil || len(origins) != 1 || len(origins[0].Support) != 1 || origins[0].Support[0].ID != "first" {
		t.Errorf("got %+v, %v, want the execution behind the first bullet", origins, err)
	}
}
