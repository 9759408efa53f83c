package invoice

import (
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
)

// TestRules checks that the model understands every wording of the rules.
func TestRules(t *testing.T) {
	t.Parallel()
	w := New(1, worlds.Default())
	for i, r := range w.rules {
		for draw := range uint64(4) {
			text := r.Text(draw)
			if !w.States(text, 0, i) || w.States(text, 0, (i+1)%len(w.rules)) {
				t.Errorf("read %q: it does not state rule %d alone", text, i)
			}
		}
	}
	feedback := "The answer is wrong: expected 3.10, got 0.10. First wrong step: small order fee: expected 3.00, got 0.00."
	others := []string{feedback, "", "For region North the region tax is high.", "For region North and payment cash the region tax is 7 % of the amount so far."}
	for _, text := range slices.Concat(others, w.Distractors(2000), Nonsense, w.Platitudes()) {
		if r, ok := readRule(text); ok {
			t.Errorf("%q states a rule: %v", text, r)
		}
	}
}

// TestCalculation checks each form of rule by an invoice that was computed by hand.
func TestCalculation(t *testing.T) {
	t.Parallel()
	const question = "Invoice 12345, Canal Toys\n  10 x oak trays at 9.95\n  1 x tin boxes at 0.50\ncustomer tier: gold\nvolume band: B\n" +
		"delivery: express\nregion: North\nloyalty card: blue\npayment: cash\nloyalty stamps: 20\n"
	w := New(1, worlds.Default())
	for _, test := range []struct{ name, bullets, want string }{
		{"no rule", "", "100.00"},
		{"percentage", "- [a] For customer tier gold the tier discount is 7.25 % of the amount so far.", "92.75"},
		{"first of two", "- [a] For customer tier gold the tier discount is 7 % of the amount so far.\n- [b] For customer tier gold the tier discount is 9 % of the amount so far.", "93.00"},
		{"list price", "- [a] For customer tier gold the tier discount is 10 % of the amount so far.\n- [b] For volume band B the volume discount is 10 % of the list price of the goods, before discounts.", "80.00"},
		{"net", "- [a] For delivery express the delivery surcharge is 5.00.\n- [b] For region North the region tax is 10 % of the goods after discounts, before surcharges.", "115.00"},
		{"stamps", "- [a] For loyalty card blue the loyalty credit is 0.15 for each stamp.", "97.00"},
		{"rounding", "- [a] For delivery express the delivery surcharge is 5.37.\n- [b] For payment cash the rounding is down to a multiple of 0.50.", "105.00"},
		{"half a cent", "- [a] For region North the region tax is 0.12 % of the amount so far.\n- [b] For delivery express the delivery surcharge is 4.17.", "104.30"},
		{"other key", "- [a] For region South the region tax is 10 % of the amount so far.", "100.00"},
	} {
		if got := w.Answer(question, "", test.bullets).FinalAnswer; got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	if got := w.Answer("What is the time?", "", "").FinalAnswer; got != "I do not know." {
		t.Errorf("no invoice: got %s", got)
	}
}

// TestTasks checks that the tasks of a seed differ, use all rules, mostly several of them, and name the number of none.
func TestTasks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		w := New(seed, worlds.Default())
		numbers := statedNumbers(w.rules)
		seen, used, several := make(map[string]bool), make(map[int]bool), 0
		tasks := append(w.Train(200), w.HeldOut(0, 200)...)
		for _, k := range tasks {
			_, body, _ := strings.Cut(k.Question, "\n")
			if seen[body] || seen[k.ID] {
				t.Errorf("seed %d: %s occurs twice", seed, k.ID)
			}
			seen[body], seen[k.ID] = true, true
			for _, rule := range k.Deciding {
				used[rule] = true
			}
			if len(k.Deciding) >= 3 {
				several++
			}
			for _, n := range anyNumber.FindAllString(k.Question, -1) {
				if numbers[n] {
					t.Errorf("seed %d: %s has the number %s of a rule in its question", seed, k.ID, n)
				}
			}
		}
		if len(used) != len(w.rules) || several*2 < len(tasks) {
			t.Errorf("seed %d: the tasks use %d of %d rules, and %d of %d use several", seed, len(used), len(w.rules), several, len(tasks))
		}
	}
}
