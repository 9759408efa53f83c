package playbook

import (
	"errors"
	"testing"
)

// TestOpKinds fails if a kind is missing in the list, in validate or in the effects.
func TestOpKinds(t *testing.T) {
	t.Parallel()
	put := &Bullet{ID: "misc-00001", Section: "misc", Content: "put"}
	seen := map[OpKind]bool{}
	for _, kind := range OpKinds() {
		if seen[kind] {
			t.Errorf("%s: twice in the list", kind)
		}
		seen[kind] = true
		op := Op{
			Kind: kind, Bullet: "misc-00001", Section: "misc", Content: "new", Status: Retired, Pinned: true, PutBullet: put,
			Helpful: 1, OldVote: Harmful, Support: []int{0}, Exposures: []Exposure{{Arm: ArmShown, Score: 3}},
		}
		if err := op.validate(1); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		switch kind {
		case Add, Put, Remove: // the playbook adds and removes bullets
			continue
		}
		if (&Bullet{ID: "misc-00001", Section: "misc", Content: "old"}).Apply(&op, []Cover{{ID: "1"}}) == nil {
			t.Errorf("%s: has no effect", kind)
		}
	}
	if err := (&Op{Kind: "OTHER", Bullet: "misc-00001"}).validate(0); !errors.Is(err, ErrUnknownOp) {
		t.Errorf("an unknown kind: got %v, want ErrUnknownOp", err)
	}
}
