package simulated

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// TestSelectionRecognisesApplicableRules measures precision and recall of the applicability that selection computes for
// rules and invoices. The threshold of selection was chosen with this test.
func TestSelectionRecognisesApplicableRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, of := range []struct {
		rules             int
		precision, recall float64
	}{{21, 0.99, 0.99}, {12, 0.9, 0.95}, {6, 0.55, 0.9}, {1, 0.4, 0.95}} {
		right, wrong, missed := 0, 0, 0
		for seed := range uint64(8) {
			_, heldOut := Tasks(seed)
			for range 5 {
				rules := make(map[playbook.BulletID]rule)
				var bullets []*playbook.Bullet
				for i := range steps {
					for _, key := range steps[i].keys {
						r, _ := houseOf(seed).rule(i, key)
						id := playbook.MintID(steps[i].name, uint64(len(rules)+1))
						rules[id] = r
						bullets = append(bullets, &playbook.Bullet{ID: id, Section: playbook.Section(steps[i].name), Content: r.String()})
					}
				}
				if len(bullets) != 21 {
					t.Fatalf("got %d rules, but the limits of this test are for 21", len(bullets))
				}
				rng.Shuffle(len(bullets), func(i, j int) { bullets[i], bullets[j] = bullets[j], bullets[i] })
				bullets = bullets[:of.rules]
				var words recall.WordIndex
				for _, b := range bullets {
					words.Put(string(b.ID), b.Section+" "+b.Content)
				}
				book := selection.NewIndex()
				book.Update(playbook.Restore(1, 0, slices.Values(bullets)))
				for _, task := range heldOut[:40] {
					covered := words.Coverage(task.Question)
					s := book.Select(selection.Options{Now: time.Unix(1e9, 0), Tokens: 1 << 20, Trials: &selection.Trials{
						Applicability: func(b *playbook.Bullet) float64 {
							share, words := covered.Share(b.Content)
							if words > recall.MaxCoverageWords {
								t.Fatalf("longer than recall.Sentence words: %q", b.Content)
							}
							return share
						},
					}})
					tried := make(map[playbook.BulletID]bool)
					for _, trial := range s.Trials {
						tried[trial.Bullet] = true
					}
					inv, ok := readInvoice(task.Question)
					if !ok {
						t.Fatalf("invoice not found in %s", task.Question)
					}
					for _, b := range bullets {
						switch uses := inv.keys[rules[b.ID].step] == rules[b.ID].key; {
						case uses && tried[b.ID]:
							right++
						case uses:
							missed++
						case tried[b.ID]:
							wrong++
						}
					}
				}
			}
		}
		precision, found := float64(right)/float64(right+wrong), float64(right)/float64(right+missed)
		t.Logf("of %d rules: precision %.3f, recall %.3f, %d uses", of.rules, precision, found, right+missed)
		if precision < of.precision || found < of.recall {
			t.Errorf("of %d rules: precision %.3f and recall %.3f, want at least %.2f and %.2f", of.rules, precision, found, of.precision, of.recall)
		}
	}
}
