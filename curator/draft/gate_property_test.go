package draft

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
)

var drawMode = rapid.SampledFrom([]playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateGuard, playbook.GateStrict})

// TestGateInvariants checks the invariants for random reflections in random batches.
func TestGateInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := &draftTest{policy: Config{Gate: gate.Config{MaxOutcomes: 12}}}
		mode := drawMode.Draw(t, "mode")
		n.switched(t, playbook.GateGuard)
		n.seed(t, "kept", "pinned")
		n.take(t, edited("pin", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00002", Pinned: true}))
		n.switched(t, mode)
		begun := n.p.Clone()
		n.deltas = nil
		cast, isKept := 0, true
		for range rapid.IntRange(1, 25).Draw(t, "batches") {
			if rapid.IntRange(0, 9).Draw(t, "turn") == 0 {
				mode = drawMode.Draw(t, "mode")
				n.switched(t, mode)
			}
			var batch []*Item
			for range rapid.IntRange(1, 8).Draw(t, "size") {
				batch = append(batch, n.drawTask(t))
			}
			from := len(n.deltas)
			n.take(t, batch...)
			for _, d := range n.deltas[from:] {
				for _, op := range d.Ops {
					cast += op.Helpful + op.Harmful + op.Neutral
				}
			}
			isKept = isKept && mode != playbook.GateOff
			n.checkGate(t, mode, isKept)
		}
		counted := 0
		for b := range n.p.All() {
			counted += b.Helpful + b.Harmful + b.Neutral
		}
		if counted > cast {
			t.Fatalf("got %d counted votes, want at most %d", counted, cast)
		}
		for _, d := range n.deltas {
			if _, err := begun.Apply(d); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(n.p.Sorted(), begun.Sorted()); diff != "" || begun.StateHash() != n.p.StateHash() {
			t.Fatalf("replay of the log differs (-want +got):\n%s", diff)
		}
	})
}

// drawTask draws a task with its exposures, votes and proposals.
func (n *draftTest) drawTask(t *rapid.T) *Item {
	k := tells(float64(rapid.SampledFrom([]int{0, 0, 3, 7, 10, 10}).Draw(t, "score")) / 10)
	for _, b := range n.p.Sorted() {
		arms := []playbook.Arm{playbook.ArmShown, playbook.ArmWithheld}
		switch {
		case b.Shown():
			arms = append(arms, playbook.ArmOpen, playbook.ArmOpen)
		case b.Status != probation:
			continue
		}
		arm := rapid.SampledFrom(arms).Draw(t, "arm")
		x := n.exposure(t, b.Content, arm)
		x.Cited = arm == playbook.ArmOpen || arm == playbook.ArmShown && rapid.Bool().Draw(t, "cited")
		k.Reflection.Exposures = append(k.Reflection.Exposures, x)
		if rapid.IntRange(0, 3).Draw(t, "votes") == 0 {
			k.Reflection.Tags = append(k.Reflection.Tags, events.BulletTag{ID: b.ID, Tag: rapid.SampledFrom([]events.Vote{events.Helpful, events.Harmful}).Draw(t, "vote")})
		}
	}
	for _, op := range rapid.SliceOfN(rapid.Custom(drawProposal), 0, 2).Draw(t, "proposals") {
		k.Proposals = append(k.Proposals, Proposal{Op: op})
	}
	return k
}

// checkGate checks what holds after each batch. isKept reports that the gate was never off.
func (n *draftTest) checkGate(t *rapid.T, mode playbook.Gate, isKept bool) {
	t.Helper()
	for b := range n.p.All() {
		if b.Status == probation && mode != playbook.GateStrict {
			t.Fatalf("the gate is %s, but %s is on probation", mode, b.ID)
		}
		for old := n.p.Bullet(b.Replaces); old != nil; old = n.p.Bullet(old.Replaces) {
			if mode != playbook.GateOff && b.Shown() && old.Shown() {
				t.Fatalf("%s and %s are shown, but one replaces the other", b.ID, old.ID)
			}
		}
	}
	if b := n.p.Bullet("misc-00002"); b == nil || !b.Shown() || !b.Pinned {
		t.Fatalf("a pinned bullet was changed: %+v", b)
	}
	if b := n.p.Bullet("misc-00001"); isKept && (b == nil || !b.Shown() || b.Content != "kept") {
		t.Fatalf("a bullet that a person keeps was changed: %+v", b)
	}
}
