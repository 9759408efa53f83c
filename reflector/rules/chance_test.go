package rules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"debrief/events"
)

// noisyRuns returns runs in which calls fail by chance: nothing that an agent does changes it.
func noisyRuns(seed uint64, runs, tools int, odds float64) []*events.Execution {
	r := rand.New(rand.NewPCG(seed, 3))
	var list []*events.Execution
	for i := range runs {
		var steps []step
		for range 12 {
			s := step{tool: "tool" + string(rune('a'+r.IntN(tools))), output: "ok"}
			s.arguments = fmt.Sprintf(`{"order":"number %d","mode":"%s","count":%d}`, i, []string{"fast", "slow", "safe"}[r.IntN(3)], r.IntN(4))
			if r.IntN(2) == 0 {
				s.arguments = s.arguments[:len(s.arguments)-1] + `,"note":"urgent"}`
			}
			if r.Float64() < odds {
				s.output = "!it was rejected"
			}
			steps = append(steps, s)
		}
		e := run(fmt.Sprint("task ", i%(runs/3)), steps...)
		e.ID = events.Hash(fmt.Sprint(i))
		list = append(list, e)
	}
	return list
}

// TestChanceTeachesLittle counts the data sets of random failures that give a rules.
func TestChanceTeachesLittle(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("few data sets say too little: run without -short")
	}
	const sets = 120
	wrong := 0
	for seed := range uint64(sets) {
		for _, l := range learn(noisyRuns(seed, 30, 2+int(seed%6), 0.1+0.1*float64(seed%4))) {
			wrong++
			t.Logf("seed %d: %s %+v", seed, l.Content, l.Evidence)
		}
	}
	t.Logf("%d wrong lessons of %d data sets", wrong, sets)
	if wrong > sets/20 {
		t.Errorf("got %d wrong lessons in %d data sets, want at most one in 20", wrong, sets)
	}
}
