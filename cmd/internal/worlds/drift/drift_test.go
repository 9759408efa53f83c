package drift

import (
	"math/rand/v2"
	"slices"
	"testing"

	"debrief/cmd/internal/worlds/world"
	"debrief/cmd/internal/worlds/worldtest"
)

func open(seed uint64, e world.Imperfection) world.World { return New(seed, e) }

func TestWorld(t *testing.T) {
	t.Parallel()
	worldtest.Check(t, open, 0.15, 0.98)
}

// TestLanguage checks that the model understands what the world writes.
func TestLanguage(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		want := w.draw(rng)
		text := writeTicket(want, rng)
		if got := readTicket(text); got != want {
			t.Fatalf("read %q: got %v, want %v", text, got, want)
		}
		if got := readCondition(text); got != (ticket{product: want[product]}) {
			t.Fatalf("the ticket %q contains words of rules: %v", text, got)
		}
	}
	for _, r := range append(slices.Clone(w.phases[0]), w.phases[1]...) {
		for draw := range uint64(200) {
			text := r.Text(world.Draw(draw, "wording"))
			if got, ok := readRule(text); !ok || got != r {
				t.Fatalf("read %q: got %v %v, want %v", text, got, ok, r)
			}
			if got := readTicket(text); got != (ticket{product: r.when[product]}) {
				t.Fatalf("the rule %q contains words of tickets: %v", text, got)
			}
		}
	}
}

func (w *World) condition(text string) string {
	r, ok := w.readRule(text)
	if !ok {
		return ""
	}
	return r.Condition()
}

// affected returns the tasks that a changed rule decides.
func affected(w *World, tasks []world.Task) []world.Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t world.Task) bool {
		return !slices.ContainsFunc(t.Deciding, func(i int) bool { return slices.Contains(w.changed, i) })
	})
}

// TestDrift checks that a toy learns the rules, loses the changed ones and recovers. The limits are for the mean of three
// seeds, because one wrong generalisation can cost several points for some tasks.
func TestDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const seeds = 3
	var learned, before, change, after float64
	for seed := uint64(1); seed <= seeds; seed++ {
		w := New(seed, world.Default())
		toy := worldtest.Toy{World: w, Condition: w.condition}
		train := w.Train(ChangeAfter + 600)
		held, heldAfter := w.HeldOut(0, 300), w.HeldOut(1, 300)
		accuracy := func(tasks []world.Task) float64 { return worldtest.Accuracy(w, tasks, toy.Bullets()) }
		from := 0
		learn := func(to int) {
			toy.Learn(train[from:to])
			from = to
		}
		for _, to := range []int{100, 300, 600, 1000, ChangeAfter} {
			learn(to)
			t.Logf("seed %d, %4d tasks: %.1f %%, %d bullets", seed, to, 100*accuracy(held), len(toy.Bullets()))
		}
		learned += accuracy(held) / seeds
		before += accuracy(affected(w, held)) / seeds
		change += accuracy(affected(w, heldAfter)) / seeds
		for _, to := range []int{100, 200, 300, 600} {
			learn(ChangeAfter + to)
			t.Logf("seed %d, %d tasks after the change: %.1f %%, affected tasks %.1f %%", seed, to, 100*accuracy(heldAfter), 100*accuracy(affected(w, heldAfter)))
		}
		after += accuracy(affected(w, heldAfter)) / seeds
	}
	t.Logf("mean accuracy: %.3f; on affected tasks %.3f before the change, %.3f at the change, %.3f after 600 tasks", learned, before, change, after)
	if learned < 0.9 || change > 0.1 || after < before-0.1 {
		t.Error("the toy does not learn the rules, or the change is no change, or the toy does not recover")
	}
}

// TestPhases checks the rules and tasks of both phases.
func TestPhases(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	a, b := w.ByHand(0), w.ByHand(1)
	for i := range a {
		if (a[i] != b[i]) != slices.Contains(w.Changed(), i) {
			t.Errorf("rule %d: got %q and %q, changed %v", i, a[i], b[i], w.Changed())
		}
	}
	if len(a) != 40 || len(w.Changed()) != 5 {
		t.Errorf("got %d rules, %d of them change", len(a), len(w.Changed()))
	}
	train := w.Train(ChangeAfter + 500)
	for i, k := range train {
		if want := i / ChangeAfter; k.Phase != want {
			t.Fatalf("task %d: got phase %d, want %d", i, k.Phase, want)
		}
	}
	held := w.HeldOut(1, 400)
	if got := worldtest.Accuracy(w, held, b); got < 0.98 {
		t.Errorf("accuracy with the rules of phase 1: got %.3f", got)
	}
	share := float64(len(affected(w, held))) / 400
	t.Logf("%.1f %% of the tasks are affected", 100*share)
	if share < 0.05 || share > 0.5 {
		t.Errorf("got a share of %.3f affected tasks", share)
	}
	if c := w.Changed()[0]; !w.States(b[c], 1, c) || w.States(b[c], 0, c) || w.States("Keep calm.", 0, c) {
		t.Error("States does not recognise a rule")
	}
}

func TestModelKnowsNoRules(t *testing.T) {
	t.Parallel()
	without := New(1, world.Default())
	without.phases = [2][]rule{}
	worldtest.CheckModel(t, New(1, world.Default()), without)
}
