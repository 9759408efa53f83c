package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"unique"
)

// world describes synthetic runs. Each planted candidate belongs to one group of tasks and raises the success rate there.
type world struct {
	groups, tasks, runs int // tasks are those of one group, runs those of one task
	agents              int
	candidates          int
	planted             int     // one in each of the first groups
	effect              float64 // of a planted candidate
	spread              float64 // of the difficulty of tasks, and of the strength of agents
	byTask              bool    // how often a candidate is followed depends on the task
	correlated          bool    // groups of ten candidates are mostly followed together
}

// generate returns the runs. Candidates with numbers below planted are effective.
func (w world) generate(seed uint64) []taskRun {
	r := rand.New(rand.NewPCG(seed, 17))
	var runs []taskRun
	agents := max(1, w.agents)
	for g := range max(1, w.groups) {
		for t := range w.tasks {
			base := 0.5 - w.effect/2 + w.spread*(r.Float64()-0.5)
			rate := make([]float64, w.candidates)
			for c := range rate {
				rate[c] = 0.5
				if w.byTask {
					rate[c] = 0.1 + 0.8*r.Float64()
				} else if c >= w.planted {
					rate[c] = 0.2 + 0.6*float64(c%7)/6
				}
			}
			for n := range w.runs {
				run := taskRun{Task: fmt.Sprint("t", g, "-", t), Agent: fmt.Sprint("a", n%agents)}
				p := base + 0.3*w.spread*float64(n%agents)
				w.follow(&run, r, g, rate)
				for _, c := range run.Did {
					if c < w.planted {
						p += w.effect
					}
				}
				run.Success = r.Float64() < p
				runs = append(runs, run)
			}
		}
	}
	return runs
}

// follow decides which candidates a run follows.
func (w world) follow(run *taskRun, r *rand.Rand, group int, rate []float64) {
	var common float64
	for c, p := range rate {
		if c < w.planted && c != group {
			continue // a planted candidate applies to its own group only
		}
		u := r.Float64()
		if w.correlated && c >= w.planted {
			if c%10 == 0 {
				common = u
			} else if r.Float64() < 0.8 {
				u = common
			}
		}
		run.Could = append(run.Could, c)
		if u < p {
			run.Did = append(run.Did, c)
		}
	}
}

// taskRun is a run of an agent on a task. Could lists the candidates that it had an opportunity to follow, Did those that it followed.
type taskRun struct {
	Task, Agent string
	Success     bool
	Could, Did  []int
}

// comparedCandidates is the result of a comparison. shown has the numbers of the candidates of each contrast.
type comparedCandidates struct {
	Comparison
	Shown []*Contrast
	IDs   [][]int
}

// analyse returns the result of the runs. Each candidate is a habit in a situation of its own.
func analyse(runs []taskRun) comparedCandidates {
	a := NewAnalysis()
	for i := range runs {
		r := &runs[i]
		c := comparedRun{stratum: stratum{unique.Make(r.Task), unique.Make(r.Agent)}, success: r.Success}
		for _, n := range append(slices.Clone(r.Could), r.Did...) {
			c.facts = append(c.facts, a.fact(factKey{name: "could", then: fmt.Sprint(n)}, nil).number)
		}
		for _, n := range r.Did {
			c.facts = append(c.facts, a.fact(factKey{name: "did", then: fmt.Sprintf("%08d", n)}, func() habit { return habit{situation: factKey{name: "could", then: fmt.Sprint(n)}} }).number)
		}
		slices.Sort(c.facts)
		c.facts = slices.Compact(c.facts)
		a.runs = append(a.runs, c)
	}
	var out comparedCandidates
	out.Comparison, out.Shown = a.testHabits()
	for _, c := range out.Shown {
		var ids []int
		for _, f := range c.habits {
			n, _ := strconv.Atoi(f.key.then)
			ids = append(ids, n)
		}
		out.IDs = append(out.IDs, ids)
		c.habits = nil
	}
	return out
}
