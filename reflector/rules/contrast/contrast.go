// Package contrast finds the habits of an agent that separate successful runs from failed runs. It knows no text and
// no events: a habit is a candidate with a number, and a run says which candidates it could have followed and did.
//
// Runs are compared only within one stratum, that is one task and one agent, because tasks differ in difficulty and
// agents in strength. Within a stratum and given its margins, the number of successes among the runs that followed a
// candidate without effect is hypergeometric. The sum over strata gives an exact test (Mantel and Haenszel 1959,
// Zelen 1971). A stratum with one outcome only, or in which all runs did the same, says nothing.
//
// Whole tasks are divided into two halves. A candidate is confirmed if each half alone shows the same direction with
// a one-sided probability below confirmLevel. The p-value is the exact probability, without any effect, that both
// halves confirm and that the total is at least as extreme as observed. So the p-value is one of the complete rule,
// and confirmation costs no second correction.
//
// The rule over all candidates:
//
//   - Candidates whose smallest possible p-value is too large are not tested (Tarone 1990, Gilbert 2005).
//   - Candidates that the runs cannot tell apart are one test.
//   - The step-up procedure of Benjamini and Hochberg (1995) bounds the share of false contrasts among the shown
//     ones, and the probability to show something when no candidate has an effect, by falseLevel.
//
// Result repeats the procedure with outcomes that are shuffled within each stratum, as a check that needs no theory.
//
// The design was chosen by simulation (TestDesigns: 30 tasks of 5 runs, one planted effect of 40 points). Selection in
// one half and confirmation in the other found it among 20 candidates in 74 % of the data sets, both directions of that
// in 86 %, and this rule in 91 %; among 200 candidates 38 %, 56 % and 77 %. A correction for discrete p-values (Heyse
// 2011) found up to 6 points more, but then more than 10 % of the shown candidates were false.
//
// An association within a task is not yet a cause: a candidate that goes along with an effective one is shown too.
//
// Sources: Mantel and Haenszel, J. Natl. Cancer Inst. 22 (1959); Zelen, Biometrika 58 (1971); Tarone, Biometrics 46
// (1990); Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995); Gilbert, J. R. Stat. Soc. C 54 (2005); Heyse, in
// Recent Advances in Biostatistics (2011).
package contrast

import (
	"crypto/sha256"
	"slices"

	"debrief/reflector/rules/numset"
)

// Limits of a data set. They bound the memory; Result counts the data beyond them.
const (
	// MaxID is the first number that is not a valid candidate.
	MaxID = 1 << 20
	// MaxCandidates is the number of candidates that Result considers: those that most runs followed and most runs
	// did not follow.
	MaxCandidates = 20_000

	maxRuns  = 1 << 20
	maxCells = 1 << 24 // pairs of run and candidate
)

// ID is the number of a candidate. The caller numbers candidates from zero. Numbers that do not depend on the order
// of the runs, for example positions in a sorted list of keys, make the whole result independent of that order.
type ID uint32

// Run describes one run of an agent on a task.
type Run struct {
	Task, Agent string
	Success     bool

	// Could lists the candidates that the run had an opportunity to follow, Did those that it followed. A candidate
	// in Did counts as one in Could. Order and duplicates have no effect.
	Could, Did []ID
}

// Config configures an analysis.
type Config struct {
	// Shuffles is the number of repetitions with shuffled outcomes. Zero means 100, or fewer for large data, see
	// Result.Shuffles. A negative number disables them.
	Shuffles int
}

// Data is a set of runs. It is not safe for concurrent use.
type Data struct {
	cfg     Config
	strata  map[stratumKey]uint32
	keys    []stratumKey
	runs    []row
	cells   int
	dropped int // runs beyond the limits
	invalid int // pairs of run and candidate with a number of MaxID or more
	bound   ID  // all candidates are below

	scratch []uint32 // cells of the current run; reused
}

// stratumKey identifies a task and an agent by their hashes. Hashes bound the memory for long names.
type stratumKey struct{ task, agent [16]byte }

// row is a stored run. A cell is twice the candidate, plus one if the run followed it.
type row struct {
	cells   numset.Set
	stratum uint32
	success bool
}

// New returns an empty data set.
func New(cfg Config) *Data {
	return &Data{cfg: cfg, strata: map[stratumKey]uint32{}}
}

// Add adds a run. It keeps no reference to its slices and strings.
func (d *Data) Add(r Run) {
	if len(d.runs) >= maxRuns || len(r.Could)+len(r.Did) > maxCells-d.cells {
		d.dropped++
		return
	}
	cells, n := d.encode(r)
	d.cells += n
	d.runs = append(d.runs, row{cells: cells, stratum: d.stratum(r), success: r.Success})
}

// encode returns the cells of a run and their number.
func (d *Data) encode(r Run) (numset.Set, int) {
	all := d.scratch[:0]
	for bit, ids := range [][]ID{r.Could, r.Did} {
		for _, id := range ids {
			if id >= MaxID {
				d.invalid++
				continue
			}
			d.bound = max(d.bound, id+1)
			all = append(all, uint32(id)<<1|uint32(bit))
		}
	}
	slices.Sort(all)
	cells := all[:0]
	for i, c := range all {
		if i+1 < len(all) && all[i+1]>>1 == c>>1 {
			continue // a later cell of the same candidate has the bit if any has
		}
		cells = append(cells, c)
	}
	d.scratch = all
	return numset.New(cells), len(cells)
}

func (d *Data) stratum(r Run) uint32 {
	key := stratumKey{hash(r.Task), hash(r.Agent)}
	i, ok := d.strata[key]
	if !ok {
		i = uint32(len(d.keys))
		d.strata[key] = i
		d.keys = append(d.keys, key)
	}
	return i
}

func hash(s string) [16]byte {
	sum := sha256.Sum256([]byte(s))
	return [16]byte(sum[:16])
}
