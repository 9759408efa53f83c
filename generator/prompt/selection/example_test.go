package selection_test

import (
	"fmt"
	"time"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
)

func Example() {
	now := time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)
	p := playbook.Restore(3, 3, func(yield func(*playbook.Bullet) bool) {
		_ = yield(&playbook.Bullet{ID: "misc-00001", Section: "others", Content: "Round once, at the end.", Helpful: 9, LastUsed: now}) &&
			yield(&playbook.Bullet{ID: "misc-00002", Section: "others", Content: "Call the lookup first.", Helpful: 1, Harmful: 6, LastUsed: now}) &&
			yield(&playbook.Bullet{ID: "meta-00003", Section: "meta_strategies", Content: "Say what is missing.", Pinned: true, CreatedAt: now})
	})
	x := selection.NewIndex(false)
	x.Update(p)
	s := x.Select(selection.Options{Now: now, Tokens: 1000, MaxBullets: 2})
	fmt.Print(playbook.Render(s.Bullets))
	for _, l := range s.Left {
		fmt.Printf("%s: %d\n", l.Why, l.Count)
	}
	// Output:
	// ## Learned Strategies
	//
	// ### Meta Strategies
	// - [meta-00003] Say what is missing.
	//
	// ### Others
	// - [misc-00001] Round once, at the end.
	// not among the best 2: 1
}
