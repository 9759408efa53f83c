package explain

import (
	"slices"
	"strings"
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// TestEachKindIsDescribed fails for a new kind of operation without a description.
func TestEachKindIsDescribed(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(slices.Values(operationOrder)), slices.Sorted(slices.Values(playbook.OpKinds())); !slices.Equal(got, want) {
		t.Fatalf("operationOrder has %q, want %q", got, want)
	}
	for _, kind := range playbook.OpKinds() {
		if operations[kind].describe == nil {
			t.Fatalf("%s: has no description", kind)
		}
		op := playbook.Op{
			Kind: kind, Content: "round", Status: playbook.Retired, Pinned: true, Sources: []playbook.BulletID{"c"}, PutBullet: &playbook.Bullet{Content: "round"},
			Harmful: 1, OldVote: playbook.Helpful, Support: []int{0}, Exposures: []playbook.Exposure{{Arm: playbook.ArmShown, Score: 10}},
		}
		text := DescribeEvent(&history.Event{Kind: kind, Bullet: "a", Op: op, Author: "ann", Reason: "why"}, "b")
		if !strings.HasPrefix(text, "a ") || !strings.HasSuffix(text, " by ann: why") || len(text) <= len("a  by ann: why") {
			t.Errorf("%s: got %q, want bullet, effect, author and reason", kind, text)
		}
		if got := DeltaSummary(&playbook.Delta{Ops: []playbook.Op{op, op}}); !strings.HasPrefix(got, "2 ") {
			t.Errorf("%s: got summary %q, want two operations", kind, got)
		}
	}
}

func TestDescribeOperation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op   playbook.Op
		want string
	}{
		{playbook.Op{Kind: playbook.Tag, Helpful: 2, Support: []int{0, 1}}, "helpful +2"},
		{playbook.Op{Kind: playbook.Retag, OldVote: playbook.Helpful, Harmful: 1, Support: []int{0}}, "helpful → harmful"},
		{playbook.Op{Kind: playbook.Retag, OldVote: playbook.Helpful, Support: []int{0, 1}}, "2 times helpful (withdrawn)"},
		{playbook.Op{Kind: playbook.Pin}, "unpinned"},
		{playbook.Op{Kind: playbook.Merge, Sources: []playbook.BulletID{"a", "b"}, Content: "x"}, `merged with a, b: "x"`},
		{playbook.Op{Kind: playbook.AddExposures, Exposures: []playbook.Exposure{
			{Arm: playbook.ArmShown, Score: 10}, {Arm: playbook.ArmShown, Score: 5}, {Arm: playbook.ArmShown, Score: 5}, {Arm: playbook.ArmShown, Score: 10, Undo: true}, {Arm: playbook.ArmWithheld},
		}}, "outcomes: 2 shown with a mean score of 0.50, 1 withheld with a mean score of 0.00, 1 outcome corrected"},
		{playbook.Op{Kind: playbook.AddExposures, Exposures: []playbook.Exposure{ // the outcome that is taken back is in an earlier operation
			{Arm: playbook.ArmShown, Score: 10, Undo: true}, {Arm: playbook.ArmShown, Score: 0}, {Arm: playbook.ArmShown, Score: 0},
		}}, "outcomes: 2 shown with a mean score of 0.00, 1 outcome corrected"},
	} {
		if got := operations[test.op.Kind].describe(&test.op); got != test.want {
			t.Errorf("%s: got %q, want %q", test.op.Kind, got, test.want)
		}
	}
	if got := VoteChange("", playbook.Neutral); got != "neutral (new)" {
		t.Errorf("a new vote: got %q", got)
	}
}

func TestDeltaSummary(t *testing.T) {
	t.Parallel()
	version := uint64(7)
	d := &playbook.Delta{
		RestoredVersion: &version, Reason: "back", Rejected: []playbook.Rejection{{}, {DuplicateOf: "a-1"}, {DuplicateOf: "a-2"}},
		Ops: []playbook.Op{
			{Kind: playbook.Tag, Helpful: 2}, {Kind: playbook.Add}, {Kind: playbook.Tag, Harmful: 1}, {Kind: playbook.Add}, {Kind: playbook.Retag, Support: []int{1}},
		},
	}
	if got, want := DeltaSummary(d), `restores version 7, 2 added, 3 votes, 1 vote corrected, 2 requested again, 1 rejected, "back"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryOperationHasAMeaning(t *testing.T) {
	t.Parallel()
	for _, kind := range playbook.OpKinds() {
		if OperationMeaning(kind) == "" {
			t.Errorf("%s: no meaning: add it to operations", kind)
		}
	}
}

// A request without a text has nothing to quote.
func TestDescribeRequestWithoutText(t *testing.T) {
	t.Parallel()
	e := &history.Event{Kind: history.DuplicateEvent, Bullet: "a", Op: playbook.Op{Kind: playbook.Confirm, Bullet: "a"}}
	if got := DescribeEvent(e, "a"); !strings.HasPrefix(got, "requested again") || strings.Contains(got, `""`) {
		t.Errorf("got %q, want a request without a quotation", got)
	}
}
