package propose

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"debrief/playbook"
)

// TestIndexFollowsPlaybook applies random changes to a playbook of more bullets than a request has, and compares the
// matches in the updated index with those in a new one.
func TestIndexFollowsPlaybook(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	section := func() string { return fmt.Sprint("s", r.IntN(5)) }
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range 3 * maxContext {
			if !yield(&playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: section(), Content: fmt.Sprint("Rule ", i), Helpful: r.IntN(9)}) {
				return
			}
		}
	})
	var index BulletIndex
	check := func(step int) {
		index.update(p)
		var whole BulletIndex
		whole.update(p)
		for _, query := range []string{fmt.Sprint("Changed rule ", step-1), fmt.Sprint("s3, rule ", step)} {
			got, want := nearestTexts(&index.words, []string{query}, 9, 0), nearestTexts(&whole.words, []string{query}, 9, 0)
			if index.words.Len() != p.Len() || !slices.Equal(got, want) {
				t.Fatalf("step %d: got %v of %d bullets, want %v of %d", step, got, index.words.Len(), want, p.Len())
			}
		}
	}
	check(0)
	for step := range 400 {
		d := &playbook.Delta{Version: p.Version() + 1, Time: time.Unix(int64(step), 0), Covers: make([]playbook.Cover, 1)}
		for range 1 + r.IntN(3) {
			best := p.Top(maxContext)
			id := best[r.IntN(len(best))].ID
			if slices.ContainsFunc(d.Ops, func(op playbook.Op) bool { return op.Bullet == id }) {
				continue
			}
			switch r.IntN(5) {
			case 0:
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: 1, Support: []int{0}})
			case 1:
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: id, Harmful: 1, Support: []int{0}})
			case 2:
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Update, Bullet: id, Content: fmt.Sprint("Changed rule ", step)})
			case 3:
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.SetStatus, Bullet: id, Status: playbook.Retired, Reason: "test"})
			default:
				d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Remove, Bullet: id})
			}
		}
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
		if step%7 > 0 { // some updates have several changes
			check(step + 1)
		}
		if step == 200 { // a playbook that was read again
			p = p.Clone()
		}
	}
}
