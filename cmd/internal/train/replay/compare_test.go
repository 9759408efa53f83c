package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/train/report"
	"debrief/playbook"
)

func book(t *testing.T, bullets ...playbook.Bullet) *playbook.Playbook {
	t.Helper()
	p, d := new(playbook.Playbook), &playbook.Delta{Version: 1}
	for i := range bullets {
		b := &bullets[i]
		b.ID, b.Section = playbook.BulletID(fmt.Sprintf("a-%05d", i+1)), "a"
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
	}
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCompare(t *testing.T) {
	t.Parallel()
	say := func(texts ...string) (all []playbook.Bullet) {
		for _, text := range texts {
			all = append(all, playbook.Bullet{Content: text})
		}
		return all
	}
	here := say("Round once, at the end.", "Gold customers of the northern region always get 10 % off the net sum before any surcharge is added.", "Only here.")
	there := say("round ONCE,  at the end.", "Gold customers of the northern region always get 10 % off the net sum before any surcharge is added!", "Only there.", "Hidden.",
		"Gold customers of the northern region always get 20 % off the net sum before any surcharge is added.")
	there[3].Status = playbook.Quarantined
	want := &report.Comparison{
		Version: 1, Bullets: 4, Same: 1, Alike: 1, OnlyHere: 1, OnlyThere: 2, Here: []string{"Only here."}, There: []string{"Only there.", there[4].Content},
	}
	if diff := cmp.Diff(want, compare(book(t, here...), book(t, there...))); diff != "" {
		t.Error(diff)
	}
	here[1].Content = there[1].Content
	want.Same, want.Alike = 2, 0
	if diff := cmp.Diff(want, compare(book(t, here...), book(t, there...))); diff != "" {
		t.Error(diff)
	}
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf("Article %c%c has a discount of its own.", 'a'+i%26, 'a'+i/26))
	}
	if c := compare(book(t, say(many...)...), new(playbook.Playbook)); c.OnlyHere != 30 || len(c.Here) != report.MaxCompared || c.Bullets+c.OnlyThere != 0 {
		t.Errorf("against an empty one: %+v", c)
	}
}
