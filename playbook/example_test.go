package playbook_test

import (
	"fmt"

	"debrief/playbook"
)

// Deltas change a playbook. Applying the same delta again changes nothing.
func ExamplePlaybook_Apply() {
	var p playbook.Playbook
	log := []*playbook.Delta{
		{Version: 1, Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: "calc-00001", Section: "formulas_and_calculations", Content: "Round once, at the end."},
		}},
		{Version: 2, Covers: []playbook.Cover{{ID: "reflection", Seq: 1}}, Ops: []playbook.Op{
			{Kind: playbook.Tag, Bullet: "calc-00001", Helpful: 1, Support: []int{0}},
		}},
	}
	for _, d := range append(log, log...) {
		changed, err := p.Apply(d)
		fmt.Println(d.Version, changed, err)
	}
	fmt.Println(p.Version(), p.Bullet("calc-00001").Helpful)
	// Output:
	// 1 [calc-00001] <nil>
	// 2 [calc-00001] <nil>
	// 1 [] <nil>
	// 2 [] <nil>
	// 2 1
}

// Bullets in a prompt. The lines of a content stay under their bullet.
func ExampleRenderWithVotes() {
	fmt.Print(playbook.RenderWithVotes([]*playbook.Bullet{
		{ID: "shr-00002", Section: "strategies_and_hard_rules", Content: "Gold customers get 7 % off.", Helpful: 4},
		{ID: "code-00001", Section: "code_snippets_and_templates", Content: "Sum with carry:\n\ttotal += x\n## not a header", Helpful: 2, Harmful: 1},
		{ID: "shr-00003", Section: "strategies_and_hard_rules", Content: "Tax comes last."},
	}))
	// Output:
	// ## Learned Strategies
	//
	// ### Code Snippets And Templates
	// - [code-00001] Sum with carry:
	//   	total += x
	//   ## not a header (helpful=2, harmful=1)
	//
	// ### Strategies And Hard Rules
	// - [shr-00002] Gold customers get 7 % off. (helpful=4, harmful=0)
	// - [shr-00003] Tax comes last. (helpful=0, harmful=0)
}

func ExampleMintID() {
	fmt.Println(playbook.MintID("common_mistakes_to_avoid", 3), playbook.MintID("house_rules", 12), playbook.MintID("tools", 1))
	// Output: err-00003 hr-00012 tool-00001
}
