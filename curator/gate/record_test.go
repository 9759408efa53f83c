package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// cite adds the outcome of a task that cited a bullet.
func cite(b *playbook.Bullet, isSuccess bool) {
	x := playbook.Exposure{Arm: playbook.ArmOpen, Cited: true}
	if isSuccess {
		x.Score = playbook.MaxScore
	}
	*b = *b.Apply(&playbook.Op{Kind: playbook.AddExposures, Exposures: []playbook.Exposure{x}}, nil)
}

// integral returns the marginal likelihood of good successes and bad failures under a beta distribution of the success rate.
func integral(good, bad, a, b float64) float64 {
	const steps = 200_000
	sum, norm := 0.0, 0.0
	for i := range steps {
		p := (float64(i) + 0.5) / steps
		density := math.Pow(p, a-1) * math.Pow(1-p, b-1)
		norm += density
		sum += density * math.Pow(p, good) * math.Pow(1-p, bad)
	}
	return sum / norm
}

// TestFailingMatchesIntegral compares the factor with a numerical integration of the marginal likelihoods.
func TestFailingMatchesIntegral(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cited, withheld [2]int // successes, failures
		typical         float64
	}{
		{[2]int{0, 3}, [2]int{0, 0}, 0.5},
		{[2]int{0, 5}, [2]int{0, 0}, 0.75},
		{[2]int{2, 8}, [2]int{5, 1}, 0.5},
		{[2]int{1, 4}, [2]int{3, 3}, 0.4},
		{[2]int{10, 20}, [2]int{9, 3}, 0.6},
		{[2]int{0, 1}, [2]int{4, 0}, 0.5},
	} {
		e := &playbook.Experiment{}
		e.Cited[playbook.MaxScore], e.Cited[0] = c.cited[0], c.cited[1]
		e.Withheld[playbook.MaxScore], e.Withheld[0] = c.withheld[0], c.withheld[1]
		good, bad := float64(c.cited[0]), float64(c.cited[1])
		without, failed := float64(c.withheld[0]), float64(c.withheld[1])
		weight := float64(minPrior)
		a, b := weight*c.typical, weight*(1-c.typical)
		want := integral(good, bad, 1, 1) * integral(without, failed, a, b) / integral(good+without, bad+failed, a, b)
		if got := failing(e, playbook.Typical{Rate: c.typical}); math.Abs(got-want) > 0.01*want {
			t.Errorf("%+v: got %v, want %v", c, got, want)
		}
	}
}

func TestFailingIsZeroForBetterRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.IntRange(0, 60)
		e := &playbook.Experiment{}
		e.Cited[playbook.MaxScore], e.Withheld[playbook.MaxScore] = counts.Draw(t, "cited successes"), counts.Draw(t, "withheld successes")
		e.Cited[0], e.Withheld[0] = counts.Draw(t, "cited failures"), counts.Draw(t, "withheld failures")
		typical := playbook.Typical{Rate: rapid.Float64Range(-1, 2).Draw(t, "typical"), Outcomes: rapid.Float64Range(0, 100).Draw(t, "outcomes")}
		got := failing(e, typical)
		if math.IsNaN(got) || math.IsInf(got, 0) || got < 0 {
			t.Fatalf("got %v", got)
		}
		n, m := e.Cited.Count(), e.Withheld.Count()
		prior := max(minPrior, min(typical.Outcomes, float64(n), maxPrior))
		decides := n > 20 && float64(m) > 10*prior // then the typical rate moves the withheld one by less than a tenth
		if decides && e.Cited.Mean() > e.Withheld.Mean()+0.2 && got != 0 {
			t.Fatalf("cited tasks succeed more often, %.2f and %.2f: got %v", e.Cited.Mean(), e.Withheld.Mean(), got)
		}
		if decides && e.Cited.Mean() < e.Withheld.Mean()-0.8 && got < 20 {
			t.Fatalf("cited tasks succeed less often, %.2f and %.2f: got %v", e.Cited.Mean(), e.Withheld.Mean(), got)
		}
	})
}

// drawRate draws a success rate from the distribution of failing, by its quantiles.
func drawRate(rng *rand.Rand, typical playbook.Typical) float64 {
	const steps = 1000
	a, b := typical.Outcomes*typical.Rate, typical.Outcomes*(1-typical.Rate)
	var cumulative [steps]float64
	sum := 0.0
	for i := range cumulative {
		p := (float64(i) + 0.5) / steps
		sum += math.Pow(p, a-1) * math.Pow(1-p, b-1)
		cumulative[i] = sum
	}
	at, _ := slices.BinarySearch(cumulative[:], rng.Float64()*sum)
	return (float64(at) + 0.5) / steps
}

// TestFailingRarelyExceedsItsThreshold simulates tasks that cite a bullet and tasks without it with the same success rate, which
// varies around the typical one. The factor is checked after every outcome.
func TestFailingRarelyExceedsItsThreshold(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const alpha, bullets = 0.05, 500
	for _, rate := range []float64{0.3, 0.5, 0.75, 0.9, 1.3, 1.5, 1.75, 1.9} { // above 1: the rate plus 1, with the largest weight
		typical := playbook.Typical{Rate: rate, Outcomes: minPrior}
		if rate > 1 {
			typical = playbook.Typical{Rate: rate - 1, Outcomes: maxPrior}
		}
		rng := rand.New(rand.NewPCG(5, 5))
		alarms := 0
		for range bullets {
			rate := drawRate(rng, typical)
			e := &playbook.Experiment{}
			for range 600 {
				scores, score := &e.Cited, 0
				if rng.IntN(10) == 0 {
					scores = &e.Withheld
				}
				if rng.Float64() < rate {
					score = playbook.MaxScore
				}
				scores[score]++
				if failing(e, typical) >= 1/alpha {
					alarms++
					break
				}
			}
		}
		// 0.05 plus three standard errors.
		if share := float64(alarms) / bullets; share > 0.08 {
			t.Errorf("typical %+v: %.3f false alarms, want at most 0.08", typical, share)
		}
	}
}

// TestDriftedMatchesPage compares the test with its definition on short records that have no old outcomes.
func TestDriftedMatchesPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		record := rapid.StringMatching(`[+-]{0,10}\+{0,22}-{0,10}`).Draw(t, "record")
		record = record[:min(len(record), playbook.MaxRecent)]
		b := playbook.Bullet{}
		for _, mark := range record {
			cite(&b, mark == playbook.RecentSuccess)
		}
		e := b.CurrentExperiment()

		run := 0
		for run < len(record) && record[len(record)-1-run] == playbook.RecentFailure {
			run++
		}
		n, failures := len(record)-run, 0
		for _, mark := range record[:n] {
			if mark == playbook.RecentFailure {
				failures++
			}
		}
		rate := float64(failures+1) / float64(n+2)
		best := 0.0 // the largest sum of a part of the record that ends with the newest outcome
		for from := range record {
			sum := 0.0
			for _, mark := range record[from:] {
				if mark == playbook.RecentFailure {
					sum += math.Log(0.5 / rate)
				} else {
					sum += math.Log(0.5 / (1 - rate))
				}
			}
			best = max(best, sum)
		}
		want := run > 0 && rate < 0.5 && best >= math.Log(float64(n+1)/0.05)
		if got := drifted(&e, 0.05); got != want {
			t.Fatalf("%q: got %v, want %v", record, got, want)
		}
	})
}

// TestDriftedIsSilentOnStationaryRecords checks the test after each of many outcomes with the same success rate.
func TestDriftedIsSilentOnStationaryRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const bullets, outcomes = 80, 3000
	for _, rate := range []float64{0.55, 0.7, 0.8, 0.9, 0.95, 0.99} {
		alarms := 0
		for seed := range uint64(bullets) {
			rng, b := rand.New(rand.NewPCG(seed, 3)), playbook.Bullet{}
			for range outcomes {
				cite(&b, rng.Float64() < rate)
				if e := b.CurrentExperiment(); drifted(&e, 0.05) {
					alarms++
					break
				}
			}
		}
		if share := float64(alarms) / bullets; share > 0.05 {
			t.Errorf("success rate %.2f: %.3f false alarms in %d outcomes, want at most 0.05", rate, share, outcomes)
		}
	}
}

// TestDriftedDetectsChange checks the number of outcomes until a change of the success rate to 20 % is detected.
func TestDriftedDetectsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	for _, test := range []struct {
		rate         float64
		before       int
		median, most int // most is the 90 % quantile
	}{{0.95, 30, 8, 16}, {0.95, 300, 8, 12}, {0.95, 3000, 8, 12}, {0.8, 300, 18, 26}, {0.8, 3000, 20, 28}} {
		var delays []int
		for seed := range uint64(100) {
			rng, b := rand.New(rand.NewPCG(seed, 4)), playbook.Bullet{}
			for range test.before {
				cite(&b, rng.Float64() < test.rate)
			}
			delay := 0
			for e := b.CurrentExperiment(); delay < 500 && !drifted(&e, 0.05); e = b.CurrentExperiment() {
				delay++
				cite(&b, rng.Float64() < 0.2)
			}
			delays = append(delays, delay)
		}
		slices.Sort(delays)
		if median, most := delays[50], delays[90]; median > test.median || most > test.most || median == 0 {
			t.Errorf("from %.2f after %d outcomes: median %d and 90 %% quantile %d, want 1 to %d and at most %d",
				test.rate, test.before, median, most, test.median, test.most)
		}
	}
}
