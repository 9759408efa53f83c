package contrast

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	defaultShuffles = 100
	// shuffleCells bounds the work of all shuffles, in entries of the matrix. At least minShuffles are done.
	shuffleCells = 1 << 26
	minShuffles  = 10
)

// Result is the result of an analysis.
type Result struct {
	Runs     int `json:"runs"`     // runs that were analysed
	Dropped  int `json:"dropped"`  // runs beyond the limits of a data set
	Invalid  int `json:"invalid"`  // pairs of run and candidate that were ignored because the number is MaxID or more
	Strata   int `json:"strata"`   // pairs of task and agent
	Repeated int `json:"repeated"` // strata with two runs or more

	// Only informative strata, which have both outcomes, can show a contrast.
	Informative      int `json:"informative"`
	InformativeTasks int `json:"informative_tasks"`
	InformativeRuns  int `json:"informative_runs"`

	Candidates int `json:"candidates"` // distinct candidates of all runs
	LeftOut    int `json:"left_out"`   // candidates beyond MaxCandidates
	Distinct   int `json:"distinct"`   // candidates that vary within an informative stratum; those that the runs cannot tell apart are one
	Tested     int `json:"tested"`     // of these, those that could become significant

	Shown []Contrast `json:"shown,omitempty"` // the smallest p-value first

	Shuffles     int     `json:"shuffles"`      // repetitions with shuffled outcomes
	ShuffledMean float64 `json:"shuffled_mean"` // contrasts that a repetition shows on average
	ShuffledAny  float64 `json:"shuffled_any"`  // share of the repetitions that show a contrast

	// DetectableDifference is the difference between success rates that the data would show in about nine of ten
	// cases, if half of the runs follow the candidate and all tasks are of medium difficulty. It is at most one; one
	// means that hardly any effect would be shown.
	DetectableDifference float64 `json:"detectable_difference"`
	// RunsNeeded is the approximate number of runs in informative strata that show a difference of 40 points in nine
	// of ten cases, with as many tests.
	RunsNeeded int `json:"runs_needed"`
}

// Contrast is a candidate that separates success from failure.
type Contrast struct {
	// IDs has one candidate, or several that the runs cannot tell apart, in ascending order.
	IDs   []ID `json:"ids"`
	Helps bool `json:"helps"` // runs that followed the candidate succeeded more often

	Counts             // of both halves
	Halves     [2]Half `json:"halves"`
	Difference float64 `json:"difference"` // of success rates, weighted over strata (Mantel and Haenszel)
	P          float64 `json:"p"`          // two-sided, exact, including the confirmation by both halves
}

// Half is the part of a contrast that comes from one half of the tasks.
type Half struct {
	Counts
	P float64 `json:"p"` // one-sided, in the direction of the contrast
}

// Counts has the runs that could follow the candidate, in strata where some did and some did not, and where some of
// these runs succeeded and some failed. Other runs allow no comparison.
type Counts struct {
	Strata        int `json:"strata"`
	DidSuccess    int `json:"did_success"`
	DidFailure    int `json:"did_failure"`
	DidNotSuccess int `json:"did_not_success"`
	DidNotFailure int `json:"did_not_failure"`
}

// Result analyses the data. More runs can be added afterwards. The result depends on the runs only: it is the same
// for each order of Add.
func (d *Data) Result() Result {
	m := d.matrix()
	r := Result{
		Runs: len(d.runs), Dropped: d.dropped, Invalid: d.invalid,
		Strata: len(d.keys), Repeated: m.repeat,
		Informative: len(m.strata), InformativeTasks: m.tasks, InformativeRuns: len(m.of),
		Candidates: m.ids, LeftOut: m.leftOut, Distinct: len(m.columns),
	}
	s := newScorer(m)
	v := s.decide(m.success)
	r.Tested = v.tested
	for _, c := range v.shown {
		r.Shown = append(r.Shown, s.contrast(m.columns[c]))
	}
	slices.SortFunc(r.Shown, func(a, b Contrast) int {
		return cmp.Or(cmp.Compare(a.P, b.P), -cmp.Compare(math.Abs(a.Difference), math.Abs(b.Difference)), cmp.Compare(a.IDs[0], b.IDs[0]))
	})
	r.shuffle(s, d.cfg.Shuffles)
	r.power()
	return r
}

// contrast describes a column that is shown.
func (s *scorer) contrast(c column) Contrast {
	s.load(c.entries, s.m.success)
	out := Contrast{IDs: c.ids}
	var above, below float64
	for i := range s.halves {
		counts := &out.Halves[i].Counts
		for _, t := range s.halves[i].tables {
			counts.Strata++
			counts.DidSuccess += t.both
			counts.DidFailure += t.did - t.both
			counts.DidNotSuccess += t.successes - t.both
			counts.DidNotFailure += t.n - t.did - t.successes + t.both
			above += float64(t.both) - t.mean()
			below += float64(t.did) * float64(t.n-t.did) / float64(t.n)
		}
		out.Strata += counts.Strata
		out.DidSuccess += counts.DidSuccess
		out.DidFailure += counts.DidFailure
		out.DidNotSuccess += counts.DidNotSuccess
		out.DidNotFailure += counts.DidNotFailure
	}
	out.Difference = above / below
	out.Helps = out.Difference > 0
	var halves [2]float64
	out.P, halves = s.test()
	out.Halves[0].P, out.Halves[1].P = halves[0], halves[1]
	return out
}

// shuffle repeats the procedure with outcomes that are shuffled within each stratum.
func (r *Result) shuffle(s *scorer, wanted int) {
	r.Shuffles = max(wanted, 0)
	if wanted == 0 {
		cells := 1
		for _, c := range s.m.columns {
			cells += len(c.entries)
		}
		r.Shuffles = max(minShuffles, min(defaultShuffles, shuffleCells/cells))
	}
	if r.Shuffles == 0 {
		return
	}
	random := rand.New(rand.NewPCG(0x636f6e, 0x7472617374))
	draws := make(chan []bool)
	var shown, hit atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), r.Shuffles) {
		workers.Go(func() {
			s := newScorer(s.m) // it is not safe for concurrent use
			for success := range draws {
				if n := len(s.decide(success).shown); n > 0 {
					shown.Add(int64(n))
					hit.Add(1)
				}
			}
		})
	}
	for range r.Shuffles { // one after the other: the draws are the same for any number of workers
		success := make([]bool, len(s.m.success))
		s.m.draw(random, success)
		draws <- success
	}
	close(draws)
	workers.Wait()
	r.ShuffledMean = float64(shown.Load()) / float64(r.Shuffles)
	r.ShuffledAny = float64(hit.Load()) / float64(r.Shuffles)
}

// draw assigns the successes of each stratum to random runs of it.
func (m *matrix) draw(random *rand.Rand, success []bool) {
	for _, st := range m.strata {
		need := st.successes
		for pos := st.start; pos < st.end; pos++ {
			success[pos] = random.IntN(int(st.end-pos)) < need
			if success[pos] {
				need--
			}
		}
	}
}

// power sets the numbers that tell how many data are enough. A stratum of n runs compares like n-1 independent runs.
func (r *Result) power() {
	const inNineOfTen, difference, usualRuns = 1.2816, 0.4, 5
	tests := max(1, r.Tested)
	z := math.Sqrt2*math.Erfcinv(falseLevel/float64(tests)) + inNineOfTen
	compared := float64(r.InformativeRuns - r.Informative)
	r.DetectableDifference = 1
	perStratum := float64(usualRuns)
	if r.Informative > 0 {
		r.DetectableDifference = min(1, z/math.Sqrt(compared))
		perStratum = float64(r.InformativeRuns) / float64(r.Informative)
	}
	r.RunsNeeded = int(math.Ceil(z * z / (difference * difference) * perStratum / (perStratum - 1)))
}
