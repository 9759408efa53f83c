package explain

import (
	"slices"
	"strings"
	"testing"

	"debrief/playbook/history"

	book "debrief/playbook"
)

// TestEachKindIsDescribed fails for a new kind of operation without a description.
func TestEachKindIsDescribed(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(slices.Values(operationOrder)), slices.Sorted(slices.Values(book.OpKinds())); !slices.Equal(got, want) {
		t.Fatalf("operationOrder has %q, want %q", got, want)
	}
	for _, kind := range book.OpKinds() {
		if operations[kind].describe == nil {
			t.Fatalf("%s: has no description", kind)
		}
		op := book.Op{
			Kind: kind, Content: "round", Status: book.Retired, Pinned: true, Sources: []book.BulletID{"c"}, PutBullet: &book.Bullet{Content: "round"},
			Harmful: 1, OldVote: book.Helpful, Support: []int{0}, Exposures: []book.Exposure{{Arm: book.ArmShown, Score: 10}},
		}
		text := DescribeEvent(&history.Event{Kind: kind, Bullet: "a", Op: op, Author: "ann", Reason: "why"}, "b")
		if !strings.HasPrefix(text, "a ") || !strings.HasSuffix(text, " by ann: why") || len(text) <= len("a  by ann: why") {
			t.Errorf("%s: got %q, want bullet, effect, author and reason", kind, text)
		}
		if got := DeltaSummary(&book.Delta{Ops: []book.Op{op, op}}); !strings.HasPrefix(got, "2 ") {
			t.Errorf("%s: got summary %q, want two operations", kind, got)
		}
	}
}

func TestDescribeOperation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op   book.Op
		want string
	}{
		{book.Op{Kind: book.Tag, Helpful: 2, Support: []int{0, 1}}, "helpful +2"},
		{book.Op{Kind: book.Retag, OldVote: book.Helpful, Harmful: 1, Support: []int{0}}, "helpful → harmful"},
		{book.Op{Kind: book.Retag, OldVote: book.Helpful, Support: []int{0, 1}}, "2 times helpful (withdrawn)"},
		{book.Op{Kind: book.Pin}, "unpinned"},
		{book.Op{Kind: book.Merge, Sources: []book.BulletID{"a", "b"}, Content: "x"}, `merged with a, b: "x"`},
		{book.Op{Kind: book.AddExposures, Exposures: []book.Exposure{
			{Arm: book.ArmShown, Score: 10}, {Arm: book.ArmShown, Score: 5}, {Arm: book.ArmShown, Score: 5}, {Arm: book.ArmShown, Score: 10, Undo: true}, {Arm: book.ArmWithheld},
		}}, "outcomes: 2 shown with a mean score of 0.50, 1 withheld with a mean score of 0.00, 1 outcome corrected"},
	} {
		if got := operations[test.op.Kind].describe(&test.op); got != test.want {
			t.Errorf("%s: got %q, want %q", test.op.Kind, got, test.want)
		}
	}
	if got := VoteChange("", book.Neutral); got != "neutral (new)" {
		t.Errorf("a new vote: got %q", got)
	}
}

func TestDeltaSummary(t *testing.T) {
	t.Parallel()
	version := uint64(7)
	d := &book.Delta{
		RestoredVersion: &version, Reason: "back", Rejected: []book.Rejection{{}},
		Ops: []book.Op{
			{Kind: book.Tag, Helpful: 2}, {Kind: book.Add}, {Kind: book.Tag, Harmful: 1}, {Kind: book.Add}, {Kind: book.Retag, Support: []int{1}},
		},
	}
	if got, want := DeltaSummary(d), `restores version 7, 2 added, 3 votes, 1 vote corrected, 1 rejected, "back"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEveryOperationHasAMeaning(t *testing.T) {
	t.Parallel()
	for _, kind := range book.OpKinds() {
		if OperationMeaning(kind) == "" {
			t.Errorf("%s: no meaning: add it to operations", kind)
		}
	}
}
