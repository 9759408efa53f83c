package text

import (
	"math/rand/v2"
	"slices"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
)

// TestLanguage checks that the model understands what the world writes.
func TestLanguage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	w := New(1, true, worlds.Default())
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
			text := rule{r}.Text(worlds.Draw(draw, "wording"))
			if got, ok := readRule(text); !ok || got != r {
				t.Fatalf("read %q: got %v %v, want %v", text, got, ok, r)
			}
			if got := readTicket(text); got != (ticket{product: r.When[product]}) {
				t.Fatalf("the rule %q contains words of tickets: %v", text, got)
			}
		}
	}
}

// TestPhases checks the rules and tasks of both phases.
func TestPhases(t *testing.T) {
	t.Parallel()
	w := New(1, true, worlds.Default())
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
	if c := w.Changed()[0]; !w.States(b[c], 1, c) || w.States(b[c], 0, c) || w.States("Keep calm.", 0, c) {
		t.Error("States does not recognise a rule")
	}
}

// TestSteady checks that a world without drift has the tasks of the drifting one, and no second phase.
func TestSteady(t *testing.T) {
	t.Parallel()
	steady, drifting := New(1, false, worlds.Default()), New(1, true, worlds.Default())
	train, others := steady.Train(ChangeAfter+10), drifting.Train(ChangeAfter+10)
	for i := range train {
		if train[i].Question != others[i].Question || train[i].Phase != 0 {
			t.Fatalf("task %d: got %+v, want the question of %+v and phase 0", i, train[i], others[i])
		}
	}
	if got := steady.ByHand(1); len(steady.Changed()) > 0 || !slices.Equal(got, drifting.ByHand(0)) {
		t.Errorf("got rules %q in a second phase, want those of the first", got)
	}
}
