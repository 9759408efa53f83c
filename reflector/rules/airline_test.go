package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

type trial struct {
	Task   int     `json:"task_id"`
	Reward float64 `json:"reward"`
	Traj   []struct {
		Calls []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"traj"`
}

// airline returns the tau-bench runs. Candidates are the use of a tool, and for two tools whether the first call of
// one precedes the first call of the other.
func airline(t *testing.T) []taskRun {
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, "tau-bench", "gpt-4o-airline-trials-0-2.json"))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	var trials []trial
	if err := json.Unmarshal(raw, &trials); err != nil {
		t.Fatal(err)
	}
	used, tools := make([][]string, len(trials)), []string{}
	for i, r := range trials {
		for _, m := range r.Traj {
			for _, c := range m.Calls {
				if !slices.Contains(used[i], c.Function.Name) {
					used[i] = append(used[i], c.Function.Name)
				}
			}
		}
		tools = append(tools, used[i]...)
	}
	slices.Sort(tools)
	tools = slices.Compact(tools)
	runs := make([]taskRun, len(trials))
	for i, r := range trials {
		runs[i] = taskRun{Task: fmt.Sprint(r.Task), Success: r.Reward > 0.5}
		habits(&runs[i], tools, used[i])
	}
	return runs
}

func habits(run *taskRun, tools, used []string) {
	for b, then := range tools {
		at := slices.Index(used, then)
		run.Could = append(run.Could, b)
		if at < 0 {
			continue
		}
		run.Did = append(run.Did, b)
		for a, first := range tools {
			if a == b {
				continue
			}
			id := len(tools) * (1 + a)
			run.Could = append(run.Could, id+b)
			if i := slices.Index(used, first); i >= 0 && i < at {
				run.Did = append(run.Did, id+b)
			}
		}
	}
}

func TestAirlineShuffles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	runs := airline(t)
	r := analyse(runs)
	t.Logf("%+v", r)
	random := rand.New(rand.NewPCG(3, 5))
	hit := 0
	for range 100 {
		if len(analyse(shuffled(runs, random)).Shown) > 0 {
			hit++
		}
	}
	t.Logf("%d of 100 shuffles show a contrast", hit)
	if hit > 5 {
		t.Errorf("%d of 100 shuffles show a contrast, want at most 5", hit)
	}
}

// shuffled permutes the outcomes within each task and agent.
func shuffled(runs []taskRun, random *rand.Rand) []taskRun {
	out := slices.Clone(runs)
	groups := map[[2]string][]int{}
	for i, r := range runs {
		k := [2]string{r.Task, r.Agent}
		groups[k] = append(groups[k], i)
		if g := groups[k]; len(g) > 1 {
			j := g[random.IntN(len(g))]
			out[i].Success, out[j].Success = out[j].Success, out[i].Success
		}
	}
	return out
}
