package tools

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
)

// TestLanguage checks that the model understands what the world writes.
func TestLanguage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	w := New(1, worlds.Default())
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 2000 {
		want := request{operations[i%len(operations)].name, services[rng.IntN(len(services))], tenants[rng.IntN(len(tenants))]}
		text := w.writeRequest(want, rng)
		if got := readRequest(text); got != want {
			t.Fatalf("read %q: got %v, want %v", text, got, want)
		}
		all := w.factsOf(want)
		for f, v := range readFacts(text) {
			if v != "" && v != all[f] {
				t.Fatalf("read %q: got %s %q, want %q", text, factNames[f], v, all[f])
			}
		}
		all[operation] = ""
		if got := readFacts(inventoryText(want.service, want.tenant, all)); got != all {
			t.Fatalf("read the inventory: got %v, want %v", got, all)
		}
		if _, ok := readCase(text); ok {
			t.Fatalf("the request %q states a rule", text)
		}
	}
	for i, r := range w.hidden {
		if i%3 == 0 {
			r.When[operation] = ""
		}
		for draw := range uint64(200) {
			text := rule{r}.Text(worlds.Draw(draw, "wording"))
			if got, ok := readCase(text); !ok || got != r {
				t.Fatalf("read %q: got %v %v, want %v", text, got, ok, r)
			}
			if readOperation(text) != "" {
				t.Fatalf("the rule %q contains a request", text)
			}
		}
	}
	for i := range slots {
		for _, v := range slots[i].values {
			for _, sign := range slots[i].signs[v] {
				if got, ok := readSign(sign); !ok || got.Slot != slots[i].name || got.Value != v {
					t.Errorf("read %q: got %s %s, want %s %s", sign, got.Slot, got.Value, slots[i].name, v)
				}
				if _, ok := readCase(sign); ok {
					t.Errorf("the sign %q states a rule", sign)
				}
			}
		}
	}
}

// TestRules checks the number and the use of the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		w := New(seed, worlds.Default())
		if n := len(w.ByHand(0)); n != totalRules {
			t.Errorf("got %d rules, want %d", n, totalRules)
		}
		for i, text := range w.ByHand(0) {
			if !w.States(text, 0, i) || w.States(text, 0, (i+1)%totalRules) {
				t.Errorf("seed %d: States does not recognise rule %d", seed, i)
			}
		}
		used := make([]int, totalRules)
		perTask := make([]int, 5)
		tasks := w.Train(3000)
		for _, k := range tasks {
			perTask[len(k.Deciding)]++
			for _, i := range k.Deciding {
				used[i]++
			}
		}
		slices.Sort(used)
		t.Logf("seed %d: tasks by number of rules %v, uses of a rule in %d tasks: %d to %d, median %d", seed, perTask[1:], len(tasks), used[0], used[totalRules-1], used[totalRules/2])
		if used[0] < 10 {
			t.Errorf("seed %d: a rule decides only %d of %d tasks", seed, used[0], len(tasks))
		}
	}
}

// TestSignals counts what a failure shows: an error, a line of a manual, feedback.
func TestSignals(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	w := New(1, worlds.Default())
	var failures, loud, manual, empty, rules float64
	for _, k := range w.Train(2000) {
		a := w.Attempt(k, "")
		v := w.Verdict(k, a)
		if v.Right() {
			continue
		}
		failures++
		last := a.Steps[len(a.Steps)-1]
		if last.Failed {
			loud++
			if strings.Contains(last.Output, "man ") {
				manual++
			}
		}
		if v.Feedback == "" {
			empty++
		} else if _, ok := readCase(v.Feedback); ok {
			rules++
		}
	}
	t.Logf("of %.0f failures: error %.2f, with manual %.2f; feedback: none %.2f, rule %.2f", failures, loud/failures, manual/failures, empty/failures, rules/failures)
	for name, c := range map[string]struct{ got, lo, hi float64 }{
		"error": {loud / failures, 0.2, 0.7}, "manual": {manual / loud, 0.4, 0.6}, "none": {empty / failures, 0.36, 0.44}, "rule": {rules / failures, 0.26, 0.34},
	} {
		if c.got < c.lo || c.got > c.hi {
			t.Errorf("share of failures, %s: got %.3f, want %.2f to %.2f", name, c.got, c.lo, c.hi)
		}
	}
}
