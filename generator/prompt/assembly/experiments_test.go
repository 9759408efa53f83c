package assembly

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// anyBullets draws bullets. Many of them are in experiments: on probation under a strict gate, else suspect.
func anyBullets(t *rapid.T, gate playbook.Gate) (bullets []playbook.Bullet) {
	for i := range rapid.IntRange(1, 20).Draw(t, "bullets") {
		b := playbook.Bullet{
			ID: playbook.MintID("strategies", uint64(i+1)), Section: rapid.SampledFrom([]string{"a", "b_c"}).Draw(t, "section"),
			Content: "advice " + strings.Repeat(rapid.StringN(1, 8, -1).Draw(t, "said"), rapid.IntRange(1, 60).Draw(t, "times")), CreatedAt: noon, UpdatedAt: noon,
			Helpful: rapid.IntRange(0, 9).Draw(t, "helpful"), Pinned: rapid.IntRange(0, 9).Draw(t, "pinned") == 0,
		}
		b.Experiment = &playbook.Experiment{Standing: playbook.StandingKept}
		if rapid.Bool().Draw(t, "in experiment") {
			b.Experiment = &playbook.Experiment{Standing: playbook.StandingSuspect}
			if gate == playbook.GateStrict {
				b.Status = playbook.Probation
			}
		}
		bullets = append(bullets, b)
	}
	return bullets
}

// experimentIndex returns the index of a playbook with a gate. Its experiments have a number.
func experimentIndex(bullets []playbook.Bullet, gate playbook.Gate, number int) *selection.Index {
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for _, b := range bullets {
			e := *b.Experiment
			e.Number = number
			b.Experiment = &e
			if !yield(&b) {
				return
			}
		}
	})
	p.SetGate(gate)
	return newIndex(p)
}

// The other parts of a context are the same for both arms, even at the limit. A withheld bullet is not in the prompt,
// and the context can be rebuilt. The number of an experiment changes only the arm.
func TestContextIsIndependentOfExperimentArms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, gate := range []playbook.Gate{playbook.GateGuard, playbook.GateStrict} {
		compared := 0
		rapid.Check(t, func(t *rapid.T) {
			if checkArms(t, gate) {
				compared++
			}
		})
		if compared == 0 {
			t.Errorf("no two arms were compared with the gate %s: the test is void", gate)
		}
	}
}

// checkArms compares the two arms of one context. It reports false if the context has no experiment or does not fit.
func checkArms(t *rapid.T, gate playbook.Gate) (compared bool) {
	in, l := anyInput(t), anyLimits(t)
	l.Total = max(l.Total, 400) // below, most contexts do not fit or have no bullet
	bullets := anyBullets(t, gate)
	task := rapid.SampledFrom([]string{"p", "q", "r", "s", "t", "u", "v", "w"}).Draw(t, "task") // with and without the bullets on probation
	inputs, contexts := map[playbook.Arm]Input{}, map[playbook.Arm]*Context{}
	for n := 1; len(contexts) < 2; n++ {
		if n == 100 {
			t.Fatalf("100 draws have the same arm")
		}
		in.Index = experimentIndex(bullets, gate, n)
		in.Draw = &selection.Draw{Task: task, Applicable: func() (ids []playbook.BulletID) {
			for _, b := range bullets {
				if len(b.Content)%3 > 0 {
					ids = append(ids, b.ID)
				}
			}
			return ids
		}}
		c, err := Assemble(in, l)
		if tooSmall := (*LimitError)(nil); errors.As(err, &tooSmall) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Manifest.Exposures) == 0 {
			return false
		}
		arm := c.Manifest.Exposures[0].Arm
		inputs[arm], contexts[arm] = in, c
	}
	shown, withheld := contexts[playbook.ArmShown], contexts[playbook.ArmWithheld]
	hidden := make(map[string]bool)
	for i, x := range shown.Manifest.Exposures {
		hidden[string(x.Bullet)] = true
		if y := withheld.Manifest.Exposures[i]; x.Arm != playbook.ArmShown || y.Arm != playbook.ArmWithheld || x.Bullet != y.Bullet {
			t.Fatalf("got %+v and %+v", x, y)
		}
	}
	if len(shown.Manifest.Exposures) != len(withheld.Manifest.Exposures) || len(hidden) != 1 {
		t.Fatalf("got %+v and %+v", shown.Manifest.Exposures, withheld.Manifest.Exposures)
	}
	rest := slices.DeleteFunc(slices.Clone(shown.Shown), func(b events.ShownBullet) bool { return hidden[string(b.ID)] })
	ignoreExperiment := cmpopts.IgnoreFields(events.ShownBullet{}, "Experiment") // it is drawn until both arms are found
	if d := cmp.Diff(withheld.Shown, rest, ignoreExperiment); d != "" {
		t.Fatalf("other bullets: %s", d)
	}
	others := func(c *Context) []events.Part {
		return slices.DeleteFunc(slices.Clone(c.Manifest.Parts), func(p events.Part) bool { return p.Kind == events.PartBullet })
	}
	if d := cmp.Diff(others(withheld), others(shown)); d != "" {
		t.Fatalf("other parts: %s", d)
	}
	if d := cmp.Diff(withheld.Messages[1:], shown.Messages[1:]); d != "" {
		t.Fatalf("other messages: %s", d)
	}
	if shown.Manifest.Tokens > shown.Manifest.Limit || withheld.Manifest.Tokens > shown.Manifest.Tokens {
		t.Fatalf("%d and %d tokens of %d", withheld.Manifest.Tokens, shown.Manifest.Tokens, shown.Manifest.Limit)
	}
	for id := range hidden {
		if strings.Contains(withheld.Messages[0].Text, "\n- ["+id+"] ") {
			t.Fatalf("%s is withheld, and the prompt is %q", id, withheld.Messages[0].Text)
		}
	}
	for arm, c := range contexts {
		checkChat(t, c.Messages)
		checkRender(t, c, inputs[arm])
	}
	return true
}
