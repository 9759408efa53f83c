package worlds_test

import (
	"slices"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/simulated/worlds/text"
	"debrief/cmd/internal/simulated/worlds/tools"
)

// toy learns without the product: it keeps all insights, shows all, and lets the newest of those with one condition win.
type toy struct {
	world    worlds.World
	language worlds.Language
	bullets  []string // newest first
}

// learn works on the tasks in their order.
func (l *toy) learn(tasks []worlds.Task) {
	for _, t := range tasks {
		a := l.world.Attempt(t, systemPrompt(l.bullets))
		v := l.world.Verdict(t, a)
		if v.Right() {
			continue
		}
		insight := readReflection(l.world.Reply("reflector", reflectorPrompt(t, a, v, l.bullets))).KeyInsight
		if insight == "" {
			continue
		}
		key := l.condition(insight)
		l.bullets = slices.DeleteFunc(l.bullets, func(b string) bool {
			return b == insight || key != "" && l.condition(b) == key
		})
		l.bullets = slices.Insert(l.bullets, 0, insight)
	}
}

// condition returns the condition of the rule that a text states, or an empty string without a rule.
func (l *toy) condition(text string) string {
	r, ok := l.language.Read(text)
	if !ok {
		return ""
	}
	return r.Condition()
}

// seeds is the number of seeds of a mean. One wrong generalisation can cost several points for some tasks.
const seeds = 3

// TestLearnable checks that a toy learns the rules of a world.
func TestLearnable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, name := range []string{invoice.Name, tools.Name} {
		learned := 0.0
		for seed := uint64(1); seed <= seeds; seed++ {
			w := openers[name](seed, worlds.Default())
			l := toy{world: w, language: models[name](seed, worlds.Default()).Language}
			l.learn(w.Train(1500))
			learned += accuracy(w, w.HeldOut(0, 300), l.bullets) / seeds
		}
		t.Logf("%s: mean accuracy %.3f", name, learned)
		if learned < 0.9 {
			t.Errorf("%s: got a mean accuracy of %.3f, want at least 0.9", name, learned)
		}
	}
}

// affected returns the tasks that a changed rule decides.
func affected(w worlds.World, tasks []worlds.Task) []worlds.Task {
	changed := w.(worlds.Changer).Changed()
	return slices.DeleteFunc(slices.Clone(tasks), func(t worlds.Task) bool {
		return !slices.ContainsFunc(t.Deciding, func(i int) bool { return slices.Contains(changed, i) })
	})
}

// TestDrift checks that a toy learns the rules, loses the changed ones and recovers.
func TestDrift(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	var learned, before, change, after float64
	for seed := uint64(1); seed <= seeds; seed++ {
		w := openers[text.Drifting](seed, worlds.Default())
		l := toy{world: w, language: models[text.Drifting](seed, worlds.Default()).Language}
		train := w.Train(text.ChangeAfter + 600)
		held, heldAfter := w.HeldOut(0, 300), w.HeldOut(1, 300)
		l.learn(train[:text.ChangeAfter])
		learned += accuracy(w, held, l.bullets) / seeds
		before += accuracy(w, affected(w, held), l.bullets) / seeds
		change += accuracy(w, affected(w, heldAfter), l.bullets) / seeds
		l.learn(train[text.ChangeAfter:])
		after += accuracy(w, affected(w, heldAfter), l.bullets) / seeds
	}
	t.Logf("mean accuracy: %.3f; on affected tasks %.3f before the change, %.3f at the change, %.3f after 600 tasks", learned, before, change, after)
	if learned < 0.9 || change > 0.1 || after < before-0.1 {
		t.Error("the toy does not learn the rules, or the change is no change, or the toy does not recover")
	}
}

// TestPhases checks that the rules by hand of the second phase answer its tasks, and that the change affects some of them.
func TestPhases(t *testing.T) {
	t.Parallel()
	w := openers[text.Drifting](1, worlds.Default())
	held := w.HeldOut(1, 400)
	if got := accuracy(w, held, w.ByHand(1)); got < 0.98 {
		t.Errorf("accuracy with the rules of phase 1: got %.3f", got)
	}
	if share := float64(len(affected(w, held))) / 400; share < 0.05 || share > 0.5 {
		t.Errorf("got a share of %.3f affected tasks", share)
	}
}
