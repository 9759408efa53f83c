package runs_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"debrief/events"
	"debrief/reflector/rules"
)

// analysed returns the result of an analysis and its number of habits.
func analysed(runs []*events.Execution) (r rules.Result, habits int) {
	a := rules.NewAnalysis()
	for _, e := range runs {
		a.Add(e)
	}
	r = a.Result()
	for _, l := range r.Lessons {
		if l.Habit != nil {
			habits++
		}
	}
	return r, habits
}

// TestShuffledLabelsShowNoHabit shuffles the outcomes of 150 real runs within each task, so that no habit has an effect.
func TestShuffledLabelsShowNoHabit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: run without -short")
	}
	t.Parallel()
	raw, _ := rawRuns(t)
	runs := read(t, tauFile, raw)
	r, habits := analysed(runs)
	t.Logf("real labels: %d habits. %s", habits, r.Explain())
	byTask := map[string][]*events.Execution{}
	for _, e := range runs {
		byTask[e.Origin.Task] = append(byTask[e.Origin.Task], e)
	}
	const shuffles = 100
	shown := 0
	for seed := range uint64(shuffles) {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, e := range runs { // in the order of the file, because a map has none
			group := byTask[e.Origin.Task]
			other := group[random.IntN(len(group))]
			e.Outcome, other.Outcome = other.Outcome, e.Outcome
		}
		if _, n := analysed(runs); n > 0 {
			shown++
		}
	}
	t.Logf("shuffled labels: %d of %d shuffles show a habit", shown, shuffles)
	if shown > 5 {
		t.Errorf("%d of %d shuffles show a habit, want at most 5", shown, shuffles)
	}
}

// TestHabitsAreCountedRight writes runs of four agents as a file of tau-bench, in which looking first decides, and counts the runs behind
// each habit again from the plan of the file.
func TestHabitsAreCountedRight(t *testing.T) {
	t.Parallel()
	type plan struct {
		task         int
		looks, works bool
	}
	random := rand.New(rand.NewPCG(7, 7))
	var plans []plan
	file := "["
	for i := range 120 {
		p := plan{task: i % 24, looks: random.IntN(2) == 0}
		p.works = p.looks == (random.IntN(10) > 0)
		plans = append(plans, p)
		reward, look := 0, ""
		if p.works {
			reward = 1
		}
		call := func(id, tool string) string {
			return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%[1]q,"type":"function","function":{"name":%[2]q,"arguments":"{\"k\":%[3]d}"}}]},{"role":"tool","tool_call_id":%[1]q,"name":%[2]q,"content":"ok"}`, id, tool, p.task)
		}
		if p.looks {
			look = call("c0", "look") + ","
		}
		if i > 0 {
			file += ","
		}
		file += fmt.Sprintf(`{"task_id":%d,"trial":%d,"reward":%d.0,"info":{},"traj":[{"role":"user","content":"task %[1]d"},%[4]s%[5]s,{"role":"assistant","content":"done"}]}`,
			p.task, i/24, reward, look, call("c1", "act"))
	}
	r, habits := analysed(read(t, "planned.json", []byte(file+"]")))
	if habits != 1 {
		t.Fatalf("got %+v", r.Lessons)
	}
	var counts [2][2]int // by whether the run looked, and whether it succeeded
	strata := 0
	for task := range 24 {
		var of [2][2]int
		for _, p := range plans {
			if p.task == task {
				of[toInt(p.looks)][toInt(p.works)]++
			}
		}
		if of[0][0]+of[0][1] == 0 || of[1][0]+of[1][1] == 0 || of[0][0]+of[1][0] == 0 || of[0][1]+of[1][1] == 0 {
			continue // no comparison
		}
		strata++
		for i := range of {
			for j := range of[i] {
				counts[i][j] += of[i][j]
			}
		}
	}
	h := r.Lessons[len(r.Lessons)-1].Habit
	if got := [2][2]int{{h.DidNotFailure, h.DidNotSuccess}, {h.DidFailure, h.DidSuccess}}; got != counts || h.Strata != strata || !h.Helps {
		t.Errorf("got %v in %d tasks, want %v in %d", got, h.Strata, counts, strata)
	}
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
