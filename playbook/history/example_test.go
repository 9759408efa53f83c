package history_test

import (
	"fmt"

	"debrief/playbook"
	"debrief/playbook/history"
)

// The lineage of a bullet, and the state without one of the executions that support it.
func Example() {
	from := func(execution, outcome string) playbook.Cover {
		return playbook.Cover{ID: "of " + execution, Evidence: &playbook.Evidence{Execution: execution, Outcome: outcome}}
	}
	deltas := []*playbook.Delta{
		{Version: 1, Author: history.Curator, Covers: []playbook.Cover{from("1-aa", "failure")}, Ops: []playbook.Op{
			{Kind: playbook.Add, Bullet: "calc-00001", Section: "formulas_and_calculations", Content: "Round once, at the end.", Support: []int{0}},
		}},
		{Version: 2, Author: history.Curator, Covers: []playbook.Cover{from("2-bb", "success"), from("3-cc", "success")}, Ops: []playbook.Op{
			{Kind: playbook.Tag, Bullet: "calc-00001", Helpful: 2, Support: []int{0, 1}},
		}},
	}
	log := func(fn func(*playbook.Delta) error) error {
		for _, d := range deltas {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	}

	lineage, err := history.LineageOf(log, "calc-00001")
	for _, e := range lineage.Events {
		fmt.Println(e.Version, e.Kind, e.Support[0].Evidence.Execution)
	}
	fmt.Println(lineage.LearnedFrom, lineage.Helped, lineage.CurrentVotes.Helpful, err)

	without, err := history.Forget(log, playbook.Selector{Execution: "3-cc"})
	fmt.Println(without.Playbook.Bullet("calc-00001").Helpful, err)
	without, err = history.Forget(log, playbook.Selector{Execution: "1-aa"})
	fmt.Println(without.Playbook.Len(), err)
	// Output:
	// 1 ADD 1-aa
	// 2 TAG 2-bb
	// map[failure:1] 2 2 <nil>
	// 1 <nil>
	// 0 <nil>
}
