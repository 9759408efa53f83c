package assembly

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

// anyBullets draws bullets, some of them on probation.
func anyBullets(t *rapid.T) (bullets []playbook.Bullet) {
	for i := range rapid.IntRange(1, 20).Draw(t, "bullets") {
		b := playbook.Bullet{
			ID: playbook.MintID("strategies", uint64(i+1)), Section: rapid.SampledFrom([]string{"a", "b_c"}).Draw(t, "section"),
			Content: "advice " + strings.Repeat(rapid.StringN(1, 8, -1).Draw(t, "said"), rapid.IntRange(1, 60).Draw(t, "times")), CreatedAt: noon, UpdatedAt: noon,
			Helpful: rapid.IntRange(0, 9).Draw(t, "helpful"), Pinned: rapid.IntRange(0, 9).Draw(t, "pinned") == 0,
		}
		if rapid.Bool().Draw(t, "probation") {
			b.Status = playbook.Probation
		}
		bullets = append(bullets, b)
	}
	return bullets
}

// experimentIndex returns the index of a playbook whose gate is on. Bullets on probation are shown to a share of the
// tasks.
func experimentIndex(bullets []playbook.Bullet, share int) *selection.Index {
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for _, b := range bullets {
			b.Experiment = &playbook.Experiment{Number: 3, Share: share}
			if !yield(&b) {
				return
			}
		}
	})
	p.SetGate(playbook.GateOn)
	return newIndex(p)
}

// The other parts of a context are the same for both arms, even at the limit. A withheld bullet is not in the prompt,
// and the context can be rebuilt.
func TestContextIsIndependentOfExperimentArms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in, l := anyInput(t), anyLimits(t)
		bullets := anyBullets(t)
		in.Experiments = &selection.Trials{Book: "b", Task: "t", Applicability: func(b *playbook.Bullet) float64 { return float64(len(b.Content)%2) + 0.5 }}
		never, always := in, in
		never.Index, always.Index = experimentIndex(bullets, 0), experimentIndex(bullets, 100)
		a, err := Assemble(never, l)
		b, other := Assemble(always, l)
		if tooSmall := (*LimitError)(nil); errors.As(err, &tooSmall) && errors.As(other, &tooSmall) {
			return
		}
		if err != nil || other != nil {
			t.Fatal(err, other)
		}
		withheld := make(map[string]bool)
		for _, trial := range a.Manifest.Exposures {
			if trial.Arm == playbook.ArmShown || trial.Experiment != 3 {
				t.Fatalf("got %+v with a share of 0", trial)
			}
			withheld[string(trial.Bullet)] = trial.Arm == playbook.ArmWithheld
		}
		opposite := slices.Clone(b.Manifest.Exposures)
		for i := range opposite {
			if opposite[i].Arm == playbook.ArmShown {
				opposite[i].Arm = playbook.ArmWithheld
			}
		}
		if d := cmp.Diff(a.Manifest.Exposures, opposite); d != "" {
			t.Fatalf("other trials: %s", d)
		}
		rest := slices.DeleteFunc(slices.Clone(b.Manifest.Parts), func(p events.Part) bool { return p.Kind == events.PartBullet && withheld[p.Ref] })
		if d := cmp.Diff(a.Manifest.Parts, rest); d != "" {
			t.Fatalf("other parts: %s", d)
		}
		if d := cmp.Diff(a.Messages[1:], b.Messages[1:]); d != "" {
			t.Fatalf("other messages: %s", d)
		}
		if b.Manifest.Tokens > b.Manifest.Limit || a.Manifest.Tokens > b.Manifest.Tokens {
			t.Fatalf("%d and %d tokens of %d", a.Manifest.Tokens, b.Manifest.Tokens, b.Manifest.Limit)
		}
		for id, hidden := range withheld {
			if strings.Contains(a.Messages[0].Text, "\n- ["+id+"] ") == hidden {
				t.Fatalf("%s is withheld: %v, and the prompt is %q", id, hidden, a.Messages[0].Text)
			}
		}
		for _, c := range []*Context{a, b} {
			checkChat(t, c.Messages)
		}
		checkRender(t, a, never)
		checkRender(t, b, always)
	})
}
