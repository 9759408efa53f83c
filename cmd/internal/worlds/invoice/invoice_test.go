package invoice

import (
	"testing"

	"debrief/cmd/internal/worlds/world"
	"debrief/cmd/internal/worlds/worldtest"
)

func open(seed uint64, e world.Imperfection) world.World { return New(seed, e) }

func TestWorld(t *testing.T) {
	t.Parallel()
	worldtest.Check(t, open, 0.15, 0.98)
}

// TestRules checks that the model understands every wording of the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	for i, r := range w.rules {
		for draw := range uint64(4) {
			text := r.Text(draw)
			if !w.States(text, 0, i) || w.States(text, 0, (i+1)%len(w.rules)) {
				t.Errorf("read %q: it does not state rule %d alone", text, i)
			}
		}
	}
	for _, text := range w.Distractors(2000) {
		if r, ok := w.readRule(text); ok {
			t.Errorf("the distractor %q states a rule: %v", text, r)
		}
	}
}

// TestLearnable checks that a toy learns the rules. The limit is for the mean of three seeds.
func TestLearnable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const seeds = 3
	var learned float64
	for seed := uint64(1); seed <= seeds; seed++ {
		w := New(seed, world.Default())
		toy := worldtest.Toy{World: w, Condition: func(text string) string {
			r, ok := w.readRule(text)
			if !ok {
				return ""
			}
			return r.Condition()
		}}
		train, held := w.Train(1500), w.HeldOut(0, 300)
		from := 0
		for _, to := range []int{100, 300, 1500} {
			toy.Learn(train[from:to])
			from = to
			t.Logf("seed %d, %4d tasks: %.1f %%, %d bullets", seed, to, 100*worldtest.Accuracy(w, held, toy.Bullets()), len(toy.Bullets()))
		}
		learned += worldtest.Accuracy(w, held, toy.Bullets()) / seeds
	}
	t.Logf("mean accuracy %.3f", learned)
	if learned < 0.9 {
		t.Errorf("got a mean accuracy of %.3f, want at least 0.9", learned)
	}
}

func TestModelKnowsNoRules(t *testing.T) {
	t.Parallel()
	without := New(1, world.Default())
	without.rules = nil
	worldtest.CheckModel(t, New(1, world.Default()), without)
}
