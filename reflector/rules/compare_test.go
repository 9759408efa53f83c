package rules

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
)

// sets returns the number of synthetic data sets. A data set of many runs or correlated candidates takes as long as ten others:
// a quarter of them is enough, unless DEBRIEF_LONG=1 is set.
func (w world) sets() uint64 {
	switch {
	case testing.Short():
		return 20
	case os.Getenv("DEBRIEF_LONG") == "" && w.candidates > 20 && (w.runs > 5 || w.correlated):
		return 50
	}
	return 200
}

// TestPlanted checks that planted effects are found and few others.
func TestPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("few data sets say too little: run without -short")
	}
	for _, c := range []struct {
		name string
		world
		find float64 // least share of planted candidates
	}{
		{"one", world{tasks: 30, runs: 5, candidates: 20, planted: 1, effect: .4, spread: .4}, .9},
		{"five", world{groups: 5, tasks: 30, runs: 5, candidates: 20, planted: 5, effect: .4, spread: .4}, .9},
		{"one of 200", world{tasks: 30, runs: 5, candidates: 200, planted: 1, effect: .4, spread: .4}, .7},
		{"one of 200, twice the runs", world{tasks: 30, runs: 10, candidates: 200, planted: 1, effect: .4, spread: .4}, .9},
		{"five of 200, correlated", world{groups: 5, tasks: 30, runs: 5, candidates: 200, planted: 5, effect: .4, spread: .4, correlated: true}, .8},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, wrong := 0, 0
			for seed := range c.sets() {
				got := analyse(c.generate(seed))
				for i, s := range got.Shown {
					if got.IDs[i][0] < c.planted && s.Helps {
						found++
					} else {
						wrong++
					}
				}
			}
			power := float64(found) / float64(int(c.sets())*c.planted)
			mistaken := float64(wrong) / float64(found+wrong)
			t.Logf("found %.1f %%, false among the shown %.1f %%", 100*power, 100*mistaken)
			if power < c.find {
				t.Errorf("found %.1f %%, want at least %.0f %%", 100*power, 100*c.find)
			}
			if mistaken > 0.1 {
				t.Errorf("%.1f %% of the shown are false, want at most 10 %%", 100*mistaken)
			}
		})
	}
}

// TestNoEffect checks that few data sets without effect show anything, also if tasks, agents and habits differ.
func TestNoEffect(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	for _, c := range []struct {
		name string
		world
	}{
		{"plain", world{tasks: 30, runs: 5, candidates: 20, spread: .4}},
		{"one candidate", world{tasks: 30, runs: 5, candidates: 1, spread: .4}},
		{"habits follow tasks", world{tasks: 30, runs: 10, agents: 2, candidates: 200, spread: .8, byTask: true}},
		{"correlated", world{tasks: 30, runs: 5, candidates: 200, spread: .4, correlated: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hit := 0
			for seed := range c.sets() {
				if len(analyse(c.generate(seed)).Shown) > 0 {
					hit++
				}
			}
			t.Logf("%d of %d data sets show something", hit, c.sets())
			if float64(hit) > 0.05*float64(c.sets())+2 {
				t.Errorf("%d of %d data sets show something, want at most 5 %%", hit, c.sets())
			}
		})
	}
}

// TestTenRuns checks that ten runs show nothing, even if the habit decides the outcome.
func TestTenRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for n := range 2000 {
		var runs []taskRun
		for i := range 10 {
			run := taskRun{Task: fmt.Sprint(i % (1 + n%5)), Success: r.IntN(2) == 0, Could: []int{0}}
			if run.Success {
				run.Did = run.Could
			}
			runs = append(runs, run)
		}
		if got := analyse(runs); len(got.Shown) > 0 || got.Tested > 0 {
			t.Fatalf("ten runs show %+v", got.Shown)
		}
	}
}

// TestHeldOutTasksAgree checks that the habits that half of the tasks show have the same direction in the other half.
func TestHeldOutTasksAgree(t *testing.T) {
	w := world{tasks: 60, runs: 5, candidates: 20, planted: 1, effect: .4, spread: .4}
	shown, agree := 0, 0
	for seed := range w.sets() {
		runs := w.generate(seed)
		half := len(runs) / 2
		got := analyse(runs[:half])
		for i, c := range got.Shown {
			shown++
			held := recount(runs[half:], got.IDs[i][0])
			helps := held.DidSuccess*(held.DidNotSuccess+held.DidNotFailure) > held.DidNotSuccess*(held.DidSuccess+held.DidFailure)
			if helps == c.Helps {
				agree++
			}
		}
	}
	t.Logf("%d of %d shown habits have the same direction in the held-out tasks", agree, shown)
	if shown == 0 || 20*agree < 19*shown {
		t.Errorf("%d of %d shown habits have the same direction in the held-out tasks, want 95 %%", agree, shown)
	}
}

func TestOrderOfRuns(t *testing.T) {
	runs := world{tasks: 20, runs: 6, agents: 2, candidates: 15, planted: 1, effect: .8, spread: .2}.generate(1)
	want := analyse(runs)
	if len(want.Shown) == 0 {
		t.Fatal("the planted effect is not shown")
	}
	r := rand.New(rand.NewPCG(8, 8))
	for i := range 5 {
		r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		got := analyse(runs)
		for j := range got.Shown {
			got.Shown[j].P, got.Shown[j].Difference = want.Shown[j].P, want.Shown[j].Difference // sums of floating point differ in the last digit
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("order %d: %+v, want %+v", i, got, want)
		}
	}
}

// decisive returns runs in which candidate 7 decides the outcome.
func decisive(tasks int) []taskRun {
	var runs []taskRun
	for t := range tasks {
		for i := range 4 {
			run := taskRun{Task: fmt.Sprint(t), Agent: "a", Could: []int{9, 7, 8}, Success: i%2 == 0}
			if run.Success {
				run.Did = []int{7, 8}
			}
			runs = append(runs, run)
		}
	}
	return runs
}

func TestSameCandidates(t *testing.T) {
	runs := decisive(10)
	got := analyse(runs)
	if got.Candidates != 2 || got.Tested != 1 || len(got.Shown) != 1 {
		t.Fatalf("got %+v, want one contrast of two candidates", got)
	}
	c := got.Shown[0]
	if !slices.Equal(got.IDs[0], []int{7, 8}) || !c.Helps || c.Difference != 1 {
		t.Errorf("got %+v, want 7 and 8 to help with a difference of 1", c)
	}
	want := Counts{Strata: 10, DidSuccess: 20, DidNotFailure: 20}
	if c.Counts != want {
		t.Errorf("counts %+v, want %+v", c.Counts, want)
	}
	for i := range runs {
		runs[i].Success = !runs[i].Success
	}
	if c := analyse(runs).Shown; len(c) != 1 || c[0].Helps || c[0].Difference != -1 || c[0].P != got.Shown[0].P {
		t.Errorf("with opposite outcomes: %+v, want the same to hurt", c)
	}
}

func TestNothingToCompare(t *testing.T) {
	single := decisive(1)
	var oneOutcome, oneRunEach, noCandidates []taskRun
	for i, r := range decisive(20) {
		noCandidates = append(noCandidates, taskRun{Task: r.Task, Success: r.Success})
		oneRunEach = append(oneRunEach, taskRun{Task: fmt.Sprint(i), Success: r.Success, Could: r.Could, Did: r.Did})
		r.Success = true
		oneOutcome = append(oneOutcome, r)
	}
	for range 30 {
		single = append(single, decisive(1)...)
	}
	for name, runs := range map[string][]taskRun{"empty": nil, "one task": single, "one outcome": oneOutcome, "one run each": oneRunEach, "no candidates": noCandidates} {
		if got := analyse(runs); len(got.Shown) > 0 || got.Tested > 0 || got.RunsNeeded < 20 {
			t.Errorf("%s: got %+v, want nothing", name, got)
		}
	}
}

// FuzzResult reads runs from bytes. It checks the counts of each contrast against the runs.
func FuzzResult(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8})
	var seed []byte
	for i := range 80 {
		seed = append(seed, byte(i%8), byte(i/8%2), byte(3*(i/8%2)), 3)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var runs []taskRun
		for len(data) >= 4 && len(runs) < 400 {
			r := taskRun{Task: string(data[0]%16 + 'a'), Agent: string(data[0]/128 + 'a'), Success: data[1]%2 == 1}
			for id := range 8 {
				if data[2]>>id&1 == 1 {
					r.Did = append(r.Did, id<<(data[1]/16))
				}
				if data[3]>>id&1 == 1 {
					r.Could = append(r.Could, id<<(data[1]/16))
				}
			}
			runs, data = append(runs, r), data[4:]
		}
		result := analyse(runs)
		for i, c := range result.Shown {
			if got := recount(runs, result.IDs[i][0]); got != c.Counts {
				t.Fatalf("%+v, recounted %+v", c, got)
			}
			if c.P <= 0 || c.P > falseLevel || c.Helps != (c.Difference > 0) {
				t.Fatalf("invalid contrast %+v", c)
			}
		}
	})
}

// recount returns the counts of a candidate directly from the runs.
func recount(runs []taskRun, id int) Counts {
	strata := map[[2]string]*Counts{}
	for _, r := range runs {
		did := slices.Contains(r.Did, id)
		if !did && !slices.Contains(r.Could, id) {
			continue
		}
		k := [2]string{r.Task, r.Agent}
		if strata[k] == nil {
			strata[k] = &Counts{}
		}
		c := strata[k]
		switch {
		case did && r.Success:
			c.DidSuccess++
		case did:
			c.DidFailure++
		case r.Success:
			c.DidNotSuccess++
		default:
			c.DidNotFailure++
		}
	}
	var sum Counts
	for _, c := range strata {
		if min(c.DidSuccess+c.DidFailure, c.DidNotSuccess+c.DidNotFailure, c.DidSuccess+c.DidNotSuccess, c.DidFailure+c.DidNotFailure) > 0 {
			sum.Strata++
			sum.DidSuccess += c.DidSuccess
			sum.DidFailure += c.DidFailure
			sum.DidNotSuccess += c.DidNotSuccess
			sum.DidNotFailure += c.DidNotFailure
		}
	}
	return sum
}
