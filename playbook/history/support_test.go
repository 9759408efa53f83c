package history_test

import (
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// TestSupporters has a bullet that was learned from one execution, which voted as well, and then had votes of many others: these are no
// evidence for its text.
func TestSupporters(t *testing.T) {
	t.Parallel()
	id := playbook.BulletID("misc-00001")
	cover := func(execution string) playbook.Cover {
		return playbook.Cover{ID: execution, Seq: 1, Evidence: &playbook.Evidence{Execution: execution, Sample: execution, Source: execution, Outcome: "success"}}
	}
	tag := func(helpful, harmful, neutral int, support ...int) playbook.Op {
		return playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: helpful, Harmful: harmful, Neutral: neutral, Support: support}
	}
	deltas := []*playbook.Delta{
		{
			Version: 1, Covers: []playbook.Cover{cover("taught")},
			Ops: []playbook.Op{{Kind: playbook.Add, Bullet: id, Section: "misc", Content: "advice", Support: []int{0}}},
		},
		{
			Version: 2, Covers: []playbook.Cover{cover("taught"), cover("good"), cover("bad"), cover("idle"), cover("idle2"), cover("measured")},
			Ops: []playbook.Op{
				tag(1, 0, 0, 0), tag(1, 0, 0, 1), tag(0, 1, 0, 2), tag(0, 0, 2, 3, 4),
				{Kind: playbook.AddExposures, Bullet: id, Support: []int{5}, Exposures: []playbook.Exposure{{}}},
			},
		},
		{
			Version: 3, Covers: []playbook.Cover{cover("good"), cover("asks")},
			Ops: []playbook.Op{
				{Kind: playbook.Retag, Bullet: id, OldVote: playbook.Helpful, Harmful: 1, Support: []int{0}},
				{Kind: playbook.Confirm, Bullet: id, Support: []int{1}},
			},
		},
	}
	log := func(fn func(*playbook.Delta) error) error {
		for _, d := range deltas {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	}
	l, err := history.LineageOf(log, id)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]history.Role{
		"taught": history.Learned, "asks": history.Learned, "good": history.Harmed, "bad": history.Harmed, "idle": history.NoEffect, "idle2": history.NoEffect,
	}
	if len(l.Supporters) != len(want) {
		t.Errorf("got %d executions, want %d", len(l.Supporters), len(want))
	}
	for _, s := range l.Supporters {
		if s.Role != want[s.Execution] {
			t.Errorf("execution %s: got the role %q, want %q", s.Execution, s.Role, want[s.Execution])
		}
	}
	if l.LearnedFrom["success"] != 2 || l.Helped != 0 || l.Harmed != 2 || l.NoEffect != 2 {
		t.Errorf("learned from %v, helped %d, harmed %d, no effect %d; want 2 successes, 0, 2 and 2", l.LearnedFrom, l.Helped, l.Harmed, l.NoEffect)
	}
}
