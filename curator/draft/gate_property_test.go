package draft

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook"
)

// TestGateInvariants checks the invariants for random reflections in random batches.
func TestGateInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := &draftTest{policy: Policy{Gate: gate.Config{Slots: 3, MaxOutcomes: 12}}}
		mode := rapid.SampledFrom([]playbook.Gate{playbook.GateOff, playbook.GateShadow, playbook.GateOn}).Draw(t, "mode")
		n.seed(t, "one", "two", "three")
		n.take(t, edited("pin", playbook.Op{Kind: playbook.Pin, Bullet: "misc-00003", Pinned: true}))
		n.switched(t, mode)
		begun := n.p.Clone()
		n.deltas = nil
		cast := 0
		for range rapid.IntRange(1, 25).Draw(t, "batches") {
			if rapid.IntRange(0, 9).Draw(t, "turn") == 0 {
				mode = rapid.SampledFrom([]playbook.Gate{playbook.GateOff, playbook.GateShadow, playbook.GateOn}).Draw(t, "mode")
				n.switched(t, mode)
			}
			var batch []*Item
			for range rapid.IntRange(1, 8).Draw(t, "size") {
				batch = append(batch, n.drawTask(t, mode))
			}
			from := len(n.deltas)
			n.take(t, batch...)
			for _, d := range n.deltas[from:] {
				for _, op := range d.Ops {
					cast += op.Helpful + op.Harmful + op.Neutral
				}
			}
			n.promises(t, mode)
		}
		counted := 0
		for b := range n.p.All() {
			counted += b.Helpful + b.Harmful + b.Neutral
		}
		if counted > cast {
			t.Fatalf("got %d counted votes, want %d", counted, cast)
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

func (n *draftTest) drawTask(t *rapid.T, mode playbook.Gate) *Item {
	k := tells(float64(rapid.IntRange(0, 10).Draw(t, "score")) / 10)
	for _, b := range n.p.Sorted() {
		arm := playbook.ArmOpen
		if b.Status == probation && mode == playbook.GateOn {
			arm = rapid.SampledFrom([]playbook.Arm{playbook.ArmShown, playbook.ArmWithheld}).Draw(t, "arm")
		} else if !b.Shown() {
			continue
		}
		k.Reflection.Exposures = append(k.Reflection.Exposures, events.Exposure{Bullet: b.ID, Experiment: b.CurrentExperiment().Number, Arm: arm})
		if rapid.IntRange(0, 3).Draw(t, "votes") == 0 {
			k.Reflection.Tags = append(k.Reflection.Tags, events.BulletTag{ID: b.ID, Tag: rapid.SampledFrom([]events.Vote{events.Helpful, events.Harmful}).Draw(t, "vote")})
		}
	}
	for _, op := range rapid.SliceOfN(rapid.Custom(drawProposal), 0, 2).Draw(t, "proposals") {
		k.Proposals = append(k.Proposals, Proposal{Op: op})
	}
	return k
}

func (n *draftTest) promises(t *rapid.T, mode playbook.Gate) {
	t.Helper()
	onProbation, families := 0, map[playbook.BulletID][]string{}
	for b := range n.p.All() {
		if b.Status == probation {
			onProbation++
			families[gate.Family(b)] = append(families[gate.Family(b)], string(b.ID))
		}
		if b.Shown() {
			families[gate.Family(b)] = append(families[gate.Family(b)], string(b.ID))
		}
		if mode != playbook.GateOn && b.Status == probation {
			t.Fatalf("the gate is %s, but %s is on probation", mode, b.ID)
		}
	}
	if onProbation > n.policy.Gate.Slots {
		t.Fatalf("%d on probation, want at most %d", onProbation, n.policy.Gate.Slots)
	}
	for r, members := range families {
		if len(members) > 1 {
			t.Fatalf("%v are all shown or on probation in the family of %s", members, r)
		}
	}
	if b := n.p.Bullet("misc-00003"); b == nil || !b.Shown() || !b.Pinned {
		t.Fatalf("a pinned bullet was changed: %+v", b)
	}
}

// TestOrderInBatchDoesNotDecide checks that the bullet with the most requests is the next one, for any order in the batch.
func TestOrderInBatchDoesNotDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := &draftTest{policy: Policy{Gate: gate.Config{Slots: 2}}}
		n.seed(t, "wait 10 s")
		n.switched(t, playbook.GateOn)
		var batch []*Item
		for i, content := range []string{"first", "second", "third", "fourth"} {
			for range 4 - i {
				batch = append(batch, asks(add(content)), asks(op(playbook.Update, "misc-00001", content+", corrected")))
			}
		}
		n.take(t, rapid.Permutation(batch).Draw(t, "order")...)
		for content, want := range map[string]playbook.Status{
			"first": probation, "second": probation, "third": candidate, "fourth": candidate, "wait 10 s": "",
			"first, corrected": candidate, "second, corrected": candidate, "third, corrected": candidate, "fourth, corrected": retired,
		} {
			if got := n.said(t, content).Status; got != want {
				t.Fatalf("%q: got %q, want %q", content, got, want)
			}
		}
	})
}
