package effects_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"debrief/cmd/internal/worlds"
	"debrief/cmd/internal/worlds/effects"
	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/worldtest"
)

// TestEffect checks that the accuracy with and without a planted bullet is the configured one, in every world.
func TestEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, name := range worlds.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner, err := worlds.New(name, 1, worlds.Default())
			if err != nil {
				t.Fatal(err)
			}
			hand := inner.ByHand(0)
			for rule, b := range []effects.Bullet{
				{Base: 0.7, Effect: -0.5}, {Base: 0.7, Effect: -0.1}, {Base: 0.7}, {Base: 0.7, Cited: true}, {Base: 0.7, Effect: 0.1}, {Base: 0.4, Effect: 0.5},
			} {
				w := effects.New(inner, 1)
				b.Rule, b.Text = rule, inner.Alter(0, rule, 7)
				w.Plant(b, "a question")
				with := worldtest.System(append([]string{b.Text}, hand...))
				without := worldtest.System(hand)
				n, right, baseline, cited := 0, 0.0, 0.0, 0.0
				for _, k := range w.Train(2500) {
					if k.Phase > 0 || w.Applicable(k) < 0 {
						continue
					}
					n++
					a := w.Attempt(k, with)
					if w.Verdict(k, a).Right {
						right++
					}
					for _, id := range a.Cited {
						if id == "b-0" {
							cited++
						}
					}
					if w.Verdict(k, w.Attempt(k, without)).Right {
						baseline++
					}
				}
				if n < 20 {
					continue // a rare rule
				}
				right, baseline, cited = right/float64(n), baseline/float64(n), cited/float64(n)
				// The worlds with several deciding rules have a ceiling under 1.
				tolerance := 4*math.Sqrt(0.25/float64(n)) + 0.02
				if math.Abs(baseline-b.Base) > tolerance || math.Abs(right-b.Base-b.Effect) > tolerance {
					t.Errorf("%d tasks, effect %.1f: got accuracy %.2f without and %.2f with the bullet, want %.2f and %.2f",
						n, b.Effect, baseline, right, b.Base, b.Base+b.Effect)
				}
				if b.Cited && cited < 1 || !b.Cited && b.Effect == 0 && cited > 0 {
					t.Errorf("effect 0: got a share of citations of %.2f", cited)
				}
			}
		})
	}
}

// TestProposed checks that the Reflector states a planted bullet, and that the Curator adds it.
func TestProposed(t *testing.T) {
	t.Parallel()
	inner, err := worlds.New("notes", 1, worlds.Default())
	if err != nil {
		t.Fatal(err)
	}
	w := effects.New(inner, 1)
	k, text := w.Train(1)[0], inner.Alter(0, 0, 1)
	w.Plant(effects.Bullet{Text: text, Base: 0.5}, k.Question)
	a := inner.Attempt(k, "")
	reply := w.Reply("reflector", worldtest.ReflectorPrompt(k, a, inner.Verdict(k, a), nil))
	if !strings.Contains(reply, text) {
		t.Errorf("reflector: got %s, want the insight %q", reply, text)
	}
	var got prompt.Curated
	curation := worldtest.CuratorPrompt(inner.ByHand(0), []string{text, "Post trips to account 4711."})
	if err := json.Unmarshal([]byte(w.Reply("curator", curation)), &got); err != nil {
		t.Fatal(err)
	}
	added := 0
	for _, op := range got.Operations {
		if op.Content == text && op.Type == "ADD" && op.Reflections[0] == 1 {
			added++
		} else if len(op.Reflections) > 0 && op.Reflections[0] == 1 {
			t.Errorf("got %+v, want only an addition of the planted bullet", op)
		}
	}
	if added != 1 {
		t.Errorf("got %d additions of the planted bullet in %+v, want 1", added, got.Operations)
	}
}
