package simulated

import (
	"slices"
	"strings"
	"testing"
)

func TestTasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		train, heldOut := Tasks(seed)
		if len(train) < 200 || len(heldOut) < 200 || train[0].ID != "train-001" || heldOut[199].ID != "held-out-200" {
			t.Fatalf("got %d and %d tasks from %q and to %q", len(train), len(heldOut), train[0].ID, heldOut[len(heldOut)-1].ID)
		}
		h := houseOf(seed)
		seen := make(map[string]bool)
		used := make(map[rule]int)
		bodies, several := 0, 0
		for _, task := range append(train, heldOut...) {
			if err := task.Validate(); err != nil {
				t.Error(err)
			}
			_, invoice, _ := strings.Cut(task.Question, "\n")
			if seen[invoice] || seen[task.ID] {
				t.Errorf("seed %d: %s occurs twice", seed, task.ID)
			}
			seen[invoice], seen[task.ID] = true, true
			inv, ok := readInvoice(task.Question)
			if !ok {
				t.Fatalf("%s cannot be read: %s", task.ID, task.Question)
			}
			rules := 0
			for i := range steps {
				if r, ok := h.rule(i, inv.keys[i]); ok {
					used[r]++
					rules++
				}
			}
			if rules >= 3 && rules <= 6 {
				several++
			}
			bodies++
			for _, n := range anyNumber.FindAllString(task.Question, -1) {
				for _, r := range h {
					if n == cents(r.number).String() || r.form == share && n == points(r.number) {
						t.Errorf("seed %d: %s has the number %s of %q in its question", seed, task.ID, n, r)
					}
				}
			}
		}
		if len(used) != len(rulesOf(seed)) || len(used) < 12 {
			t.Errorf("seed %d: tasks use %d of %d rules, want all of at least 12", seed, len(used), len(rulesOf(seed)))
		}
		if several*2 < bodies {
			t.Errorf("seed %d: %d of %d tasks need several rules, want most", seed, several, bodies)
		}
	}
	first, _ := Tasks(1)
	again, _ := Tasks(1)
	other, _ := Tasks(2)
	if first[5].Question != again[5].Question || first[5].Question == other[5].Question {
		t.Error("tasks do not follow their seed")
	}
	if slices.Equal(rulesOf(1), rulesOf(2)) {
		t.Error("two seeds have the same rules")
	}
	t.Log("the rules of seed 1:\n" + strings.Join(rulesOf(1), "\n"))
}

// rulesOf returns the house rules of a seed, one sentence each.
func rulesOf(seed uint64) []string {
	h := houseOf(seed)
	var out []string
	for i := range steps {
		for _, key := range steps[i].keys {
			r, _ := h.rule(i, key)
			out = append(out, r.String())
		}
	}
	return out
}
