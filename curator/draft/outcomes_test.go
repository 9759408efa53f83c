package draft

import (
	"fmt"
	"slices"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

func TestOutcomesAreCountedByArm(t *testing.T) {
	t.Parallel()
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateShadow, playbook.GateOn} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			n := new(draftTest)
			n.seed(t, "one", "two")
			n.switched(t, mode)
			n.deltas = nil
			one, two := n.trial(t, "one", playbook.ArmOpen), n.trial(t, "two", playbook.ArmShown)
			past, gone, odd := one, one, two
			past.Experiment, gone.Bullet, odd.Arm = 7, "misc-00099", "sideways"
			undecided := tells(1, one)
			undecided.Reflection.Outcome.Label = events.Unknown
			n.take(t, tells(1, one, two, one), tells(0.34, one), tells(0.5, past, gone, odd), undecided)
			if got := n.rejected(); len(got) > 0 {
				t.Errorf("rejected: %q, want outcomes of past cases ignored without a rejection", got)
			}
			if mode == playbook.GateOff {
				for b := range n.p.All() {
					if b.Experiment != nil {
						t.Errorf("%s has a case: %+v", b.ID, b.Experiment)
					}
				}
				return
			}
			k := n.said(t, "one").CurrentExperiment()
			if want := (playbook.Scores{3: 1, 10: 1}); k.Open != want || k.Shown.Count() != 0 {
				t.Errorf("one: open %v, shown %v; want %v and none", k.Open, k.Shown, want)
			}
			if k := n.said(t, "two").CurrentExperiment(); k.Shown.Count() != 1 || k.Shown[10] != 1 {
				t.Errorf("two: shown %v, want one of 10", k.Shown)
			}
			var ops []string
			for _, op := range n.deltas[0].Ops {
				ops = append(ops, fmt.Sprint(op.Kind, " ", op.Bullet, op.Support, op.Exposures))
			}
			want := []string{"TRIAL misc-00001[0 1] [{open 10 false} {open 3 false}]", "TRIAL misc-00002[0] [{shown 10 false}]"}
			if !slices.Equal(ops, want) {
				t.Errorf("operations: got %q, want %q", ops, want)
			}
		})
	}
}

// TestOutcomesOfManyTasksAreFewOperations checks that 256 reflections on 30 bullets give one operation for each bullet in a
// delta.
func TestOutcomesOfManyTasksAreFewOperations(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	var contents []string
	for i := range 30 {
		contents = append(contents, fmt.Sprint("advice ", i))
	}
	n.seed(t, contents...)
	var batch []*Item
	for range 256 {
		k := tells(1)
		for _, c := range contents {
			k.Reflection.Exposures = append(k.Reflection.Exposures, n.trial(t, c, playbook.ArmOpen))
		}
		batch = append(batch, k)
	}
	n.take(t, batch...)
	ops := 0
	for _, d := range n.deltas {
		ops += len(d.Ops)
	}
	if len(n.deltas) > 3 || ops > 30*len(n.deltas) {
		t.Errorf("got %d deltas and %d operations, want one for each bullet and delta", len(n.deltas), ops)
	}
	for b := range n.p.All() {
		if got := b.CurrentExperiment().Open[10]; got != 256 {
			t.Fatalf("%s: got %d outcomes, want 256", b.ID, got)
		}
	}
}

// BenchmarkOutcomes settles 256 reflections with outcomes of 30 bullets each.
func BenchmarkOutcomes(b *testing.B) {
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateShadow, playbook.GateOn} {
		b.Run(string(mode), func(b *testing.B) {
			p := playbook.Restore(1, 10_000, func(yield func(*playbook.Bullet) bool) {
				for i := range uint64(10_000) {
					if !yield(&playbook.Bullet{ID: playbook.MintID("others", i), Section: "others", Content: fmt.Sprint("advice ", i)}) {
						return
					}
				}
			})
			p.SetGate(mode)
			var batch []*Item
			for range 256 {
				k := tells(1)
				for i := range uint64(30) {
					k.Reflection.Exposures = append(k.Reflection.Exposures, events.Exposure{Bullet: playbook.MintID("others", i), Arm: playbook.ArmOpen})
				}
				batch = append(batch, k)
			}
			b.ReportAllocs()
			for b.Loop() {
				for left := batch; len(left) > 0; {
					left = left[newDraft(p, Policy{}).draftItems(func(*Item) bool { return false }, left, nil).Decided:]
				}
			}
		})
	}
}
