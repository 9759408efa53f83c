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
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateStrict} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			n := new(draftTest)
			n.seed(t, "one", "two")
			n.switched(t, mode)
			n.deltas = nil
			one, two := n.exposure(t, "one", playbook.ArmOpen), n.exposure(t, "two", playbook.ArmShown)
			past, gone, odd, uncited, both := one, one, two, one, n.exposure(t, "two", playbook.ArmWithheld)
			past.Experiment, gone.Bullet, odd.Arm, uncited.Cited, both.Cited = 7, "misc-00099", "sideways", false, true
			undecided := tells(1, one)
			undecided.Reflection.Outcome.Label = events.Unknown
			inferred := tells(0.1, one, two)
			inferred.Reflection.Outcome.Inferred = true
			n.take(t, tells(1, one, two, one), tells(0.34, one), tells(0.5, past, gone, odd), tells(0.5, uncited, both), undecided, inferred)
			if got := n.rejected(); len(got) > 0 {
				t.Errorf("rejected: %q, want invalid outcomes ignored without a rejection", got)
			}
			if mode == playbook.GateOff {
				for b := range n.p.All() {
					if b.Experiment != nil && b.Experiment.Outcomes() > 0 {
						t.Errorf("%s has outcomes: %+v", b.ID, b.Experiment)
					}
				}
				return
			}
			k := n.said(t, "one").CurrentExperiment()
			if want := (playbook.Scores{3: 1, 10: 1}); k.Cited != want || k.Shown.Count() != 0 || k.Recent != "+-" {
				t.Errorf("one: got %+v, want the cited outcomes %v", k, want)
			}
			k = n.said(t, "two").CurrentExperiment()
			if want := (playbook.Scores{10: 1}); k.Shown != want || k.Cited != want || k.Withheld.Count() != 0 {
				t.Errorf("two: got %+v, want one outcome, shown and cited", k)
			}
			var ops []string
			for _, op := range n.deltas[0].Ops {
				if op.Kind == playbook.AddExposures {
					ops = append(ops, fmt.Sprint(op.Bullet, op.Support, op.Exposures))
				}
			}
			want := []string{"misc-00001[0 1] [{open 10 true false} {open 3 true false}]", "misc-00002[0] [{shown 10 true false}]"}
			if !slices.Equal(ops, want) {
				t.Errorf("operations: got %q, want %q", ops, want)
			}
		})
	}
}

// TestOutcomesOfManyTasksAreFewOperations checks that 256 reflections on 30 bullets give one operation for each
// bullet in a delta.
func TestOutcomesOfManyTasksAreFewOperations(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	var contents []string
	for i := range 30 {
		contents = append(contents, fmt.Sprint("advice ", i))
	}
	n.seed(t, contents...)
	var batch []*Item
	for i := range 256 {
		k := tells(1)
		for j := range events.MaxExposures {
			k.Reflection.Exposures = append(k.Reflection.Exposures, n.exposure(t, contents[(i+j)%30], playbook.ArmOpen))
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
	counted := 0
	for b := range n.p.All() {
		counted += b.CurrentExperiment().Cited[10]
	}
	if want := 256 * events.MaxExposures; counted != want {
		t.Errorf("got %d outcomes, want %d", counted, want)
	}
}

// BenchmarkOutcomes settles 256 reflections with outcomes of 16 bullets each.
func BenchmarkOutcomes(b *testing.B) {
	for _, mode := range []playbook.Gate{playbook.GateOff, playbook.GateGuard, playbook.GateStrict} {
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
				for i := range uint64(events.MaxExposures) {
					k.Reflection.Exposures = append(k.Reflection.Exposures, events.Exposure{Bullet: playbook.MintID("others", i), Arm: playbook.ArmOpen, Cited: true})
				}
				batch = append(batch, k)
			}
			b.ReportAllocs()
			for b.Loop() {
				for left := batch; len(left) > 0; {
					left = left[newDraft(p, Config{}).draftItems(left, nil).Decided:]
				}
			}
		})
	}
}

// TestCredit checks what the outcome of a run says about the bullets that it cites. A run without a flaw counts for all. A flaw counts
// against the bullets that the reflection blames, and its score for those that it calls helpful. Without votes the score counts for all.
// The random arms count every outcome.
func TestCredit(t *testing.T) {
	t.Parallel()
	vote := func(id playbook.BulletID, v events.Vote) events.BulletTag { return events.BulletTag{ID: id, Tag: v} }
	for name, c := range map[string]struct {
		score float64
		tags  []events.BulletTag
		want  []string // cited bullets that count, with their score
	}{
		"a success counts for all":           {1, []events.BulletTag{vote("a-1", events.Harmful)}, []string{"a-1 10", "a-2 10", "a-3 10"}},
		"a failure without votes":            {0, nil, []string{"a-1 0", "a-2 0", "a-3 0"}},
		"a failure of one":                   {0, []events.BulletTag{vote("a-2", events.Harmful), vote("a-1", events.Neutral)}, []string{"a-2 0"}},
		"a failure of none of them":          {0, []events.BulletTag{vote("a-2", events.Neutral)}, nil},
		"votes on bullets that it ignored":   {0, []events.BulletTag{vote("a-9", events.Harmful)}, []string{"a-1 0", "a-2 0", "a-3 0"}},
		"a flaw of one, another one helped":  {0.7, []events.BulletTag{vote("a-2", events.Harmful), vote("a-1", events.Helpful)}, []string{"a-1 7", "a-2 0"}},
		"a flaw of the one that is compared": {0.7, []events.BulletTag{vote("a-1", events.Harmful)}, []string{"a-1 0"}},
		"a flaw without votes":               {0.7, nil, []string{"a-1 7", "a-2 7", "a-3 7"}},
	} {
		r := &events.Reflection{FirstRoundScore: c.score, Tags: c.tags, Exposures: []events.Exposure{
			{Bullet: "a-1", Arm: playbook.ArmShown, Cited: true},
			{Bullet: "a-2", Arm: playbook.ArmOpen, Cited: true},
			{Bullet: "a-3", Arm: playbook.ArmOpen, Cited: true},
			{Bullet: "a-4", Arm: playbook.ArmWithheld},
		}}
		var cited []string
		var random []int
		for _, o := range outcomesOf(r) {
			if o.exposure.Cited {
				cited = append(cited, fmt.Sprint(o.bullet, " ", o.exposure.Score))
			}
			if o.exposure.Arm.Random() {
				random = append(random, o.exposure.Score)
			}
		}
		score := int(10 * c.score)
		if !slices.Equal(cited, c.want) || !slices.Equal(random, []int{score, score}) {
			t.Errorf("%s: got %v and random arms with %v, want %v and twice %d", name, cited, random, c.want, score)
		}
	}
}
