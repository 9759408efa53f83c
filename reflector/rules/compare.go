package rules

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"regexp"
	"slices"
	"strings"
	"unique"
)

// Runs are compared only within one stratum, that is one task and one agent, because tasks differ in difficulty and agents in strength.
// Within a stratum and given its margins, the number of successes among the runs that followed a habit without effect is
// hypergeometric. The sum over strata gives one exact test for each habit (Mantel and Haenszel 1959, Zelen 1971). A stratum with one
// outcome only, or in which all runs did the same, says nothing. Habits that the runs cannot tell apart are one test.
//
// One correction follows, the step-up procedure of Benjamini and Hochberg (1995): it bounds the share of habits without effect among the
// shown ones, and the probability to show anything if none has an effect, by falseLevel. The number of tests leaves out habits that could
// not become significant by their margins, and those that only one task shows.
//
// An association within a task is not yet a cause: a habit that goes along with an effective one is shown too.

const (
	// falseLevel bounds the expected share of habits without effect among the shown ones.
	falseLevel = 0.05
	// minCompared is the number of comparable runs that a habit needs. Without it, ten runs could show a contrast if there are at
	// most two habits.
	minCompared = 20
)

// Comparison has the counts behind the habits. Only strata with both outcomes can show a contrast.
type Comparison struct {
	Strata     int `json:"strata"`     // with both outcomes
	Runs       int `json:"runs"`       // in these strata
	Candidates int `json:"candidates"` // habits that vary within these strata
	Tested     int `json:"tested"`     // of these, those that could become significant; those that the runs cannot tell apart are one
	// RunsNeeded is the approximate number of runs in such strata with which tests of Tested habits would find a difference of 40 points in
	// nine of ten cases.
	RunsNeeded int `json:"runs_needed"`
}

// Contrast is a habit that separates success from failure.
type Contrast struct {
	Helps bool `json:"helps"` // runs with the habit succeeded more often
	Counts
	Difference float64 `json:"difference"` // of success rates, weighted over strata (Mantel and Haenszel)
	P          float64 `json:"p"`          // two-sided and exact, before the correction for the number of tests

	habits []*fact // one, or several that the runs cannot tell apart, sorted by key
}

// Counts has the numbers of runs that could follow the habit. A stratum counts only if it allows a comparison: some of these runs followed the
// habit and some did not, and some succeeded and some failed.
type Counts struct {
	Strata        int `json:"strata"`
	DidSuccess    int `json:"did_success"`
	DidFailure    int `json:"did_failure"`
	DidNotSuccess int `json:"did_not_success"`
	DidNotFailure int `json:"did_not_failure"`
}

func (c *Contrast) String() string {
	return fmt.Sprintf("in %s with successful and failed runs: %d of %d runs with it and %d of %d without it succeeded (p = %.2g)",
		count(c.Strata, "task"), c.DidSuccess, c.DidSuccess+c.DidFailure, c.DidNotSuccess, c.DidNotSuccess+c.DidNotFailure, c.P)
}

// candidate is a habit with its tables, one for each stratum that says something.
type candidate struct {
	*fact
	tables       []table
	task         unique.Handle[string] // of the first table
	severalTasks bool                  // another task has a table too
	runs         maphash.Hash          // of the runs and whether each has the habit: the runs cannot tell habits with equal hashes apart
}

// testHabits tests all habits. It returns those that separate success from failure, the smallest p-value first.
func (a *Analysis) testHabits() (Comparison, []*Contrast) {
	strata := a.strata()
	result := Comparison{Strata: len(strata)}
	for _, runs := range strata {
		result.Runs += len(runs)
	}
	var tested []*Contrast
	byHash := map[uint64]*Contrast{}
	for _, c := range a.candidates(strata) {
		if len(c.tables) == 0 {
			continue
		}
		result.Candidates++
		hash := c.runs.Sum64()
		contrast := byHash[hash]
		if contrast == nil {
			var ok bool
			contrast, ok = test(c.tables)
			byHash[hash] = contrast
			if ok && c.severalTasks {
				tested = append(tested, contrast)
			}
		}
		contrast.habits = append(contrast.habits, c.fact)
	}
	result.Tested = len(tested)
	result.RunsNeeded = runsNeeded(&result)
	slices.SortFunc(tested, func(x, y *Contrast) int {
		return cmp.Or(cmp.Compare(x.P, y.P), -cmp.Compare(math.Abs(x.Difference), math.Abs(y.Difference)), compareKeys(x.habits[0].key, y.habits[0].key))
	})
	shown := 0
	for i, c := range tested {
		if c.P <= falseLevel*float64(i+1)/float64(len(tested)) {
			shown = i + 1
		}
	}
	return result, tested[:shown]
}

// strata returns the runs of each stratum with both outcomes, in the order of their first runs.
func (a *Analysis) strata() (all [][]*comparedRun) {
	index := map[stratum]int{}
	for i := range a.runs {
		r := &a.runs[i]
		n, ok := index[r.stratum]
		if !ok {
			n = len(all)
			index[r.stratum] = n
			all = append(all, nil)
		}
		all[n] = append(all[n], r)
	}
	return slices.DeleteFunc(all, func(runs []*comparedRun) bool {
		return !slices.ContainsFunc(runs, func(r *comparedRun) bool { return r.success != runs[0].success })
	})
}

// candidates returns the habits that runs of the strata have, sorted by key, with their tables.
func (a *Analysis) candidates(strata [][]*comparedRun) []*candidate {
	all := make([]*candidate, len(a.facts))
	last := make([]int, len(a.facts)) // the last stratum with the fact, counted from 1
	seed, cache := maphash.MakeSeed(), mentionCache{}
	for i, runs := range strata {
		for _, r := range runs {
			for _, n := range r.facts {
				f := a.facts[n]
				isHabit := f.situation != (factKey{})
				if !isHabit || last[n] == i+1 {
					continue
				}
				last[n] = i + 1
				if all[n] == nil {
					all[n] = &candidate{fact: f}
					all[n].runs.SetSeed(seed)
				}
				all[n].add(a.byKey[f.situation], runs, cache)
			}
		}
	}
	all = slices.DeleteFunc(all, func(c *candidate) bool { return c == nil })
	slices.SortFunc(all, func(x, y *candidate) int { return compareKeys(x.key, y.key) })
	return all
}

// add adds the table of the runs of a stratum that were in the situation of the habit. It adds none if all these runs did the same or ended
// the same. It leaves out a run whose bullets mention the habit's tool, because such a run cannot confirm the habit. situation is nil if it
// was beyond maxFacts.
func (c *candidate) add(situation *fact, runs []*comparedRun, cache mentionCache) {
	type choice struct {
		run *comparedRun
		did bool
	}
	var t table
	choices := make([]choice, 0, len(runs))
	for _, r := range runs {
		if situation == nil || !r.has(situation.number) || cache.wasTold(r, c.about) {
			continue
		}
		did := r.has(c.number)
		choices = append(choices, choice{r, did})
		t.count(did, r.success)
	}
	allDidSame := t.did == 0 || t.did == t.n
	allEndedSame := t.successes == 0 || t.successes == t.n
	if allDidSame || allEndedSame {
		return
	}
	if len(c.tables) == 0 {
		c.task = runs[0].stratum.task
	}
	c.severalTasks = c.severalTasks || runs[0].stratum.task != c.task
	c.tables = append(c.tables, t)
	for _, made := range choices {
		maphash.WriteComparable(&c.runs, made)
	}
}

// test returns the contrast of the tables of a candidate. It returns false if there are too few runs, or if no counts with these margins
// could be significant.
func test(tables []table) (*Contrast, bool) {
	c := &Contrast{}
	var numerator, denominator float64 // of the difference
	for _, t := range tables {
		c.Strata++
		c.DidSuccess += t.both
		c.DidFailure += t.did - t.both
		c.DidNotSuccess += t.successes - t.both
		c.DidNotFailure += t.n - t.did - t.successes + t.both
		numerator += float64(t.both) - t.mean()
		denominator += float64(t.did) * float64(t.n-t.did) / float64(t.n)
	}
	c.Difference = numerator / denominator
	c.Helps = c.Difference > 0
	var smallest float64
	c.P, smallest = probability(tables)
	runs := c.DidSuccess + c.DidFailure + c.DidNotSuccess + c.DidNotFailure
	return c, runs >= minCompared && smallest <= falseLevel
}

// runsNeeded returns Comparison.RunsNeeded, for the level of each test without its correction for the order (Bonferroni). If half of the runs
// follow the habit and half succeed, (z / difference)² independent runs are needed. A stratum of n runs compares like n-1 of them.
func runsNeeded(r *Comparison) int {
	const (
		difference = 0.4
		power      = 1.2816 // quantile of the normal distribution for nine of ten cases
	)
	perStratum := 5.0 // without a stratum: a guess
	if r.Strata > 0 {
		perStratum = float64(r.Runs) / float64(r.Strata)
	}
	z := math.Sqrt2*math.Erfcinv(falseLevel/float64(max(1, r.Tested))) + power
	return int(math.Ceil(z * z / (difference * difference) * perStratum / (perStratum - 1)))
}

// mentionCache remembers which shown texts mention which tools.
type mentionCache map[mentionKey]bool

type mentionKey struct {
	shown unique.Handle[string]
	tool  string
}

// wasTold reports whether a bullet that a run was shown mentions a tool.
func (m mentionCache) wasTold(r *comparedRun, tool string) bool {
	return slices.ContainsFunc(r.shown, func(shown unique.Handle[string]) bool {
		key := mentionKey{shown, tool}
		found, known := m[key]
		if !known {
			found = mentions(shown.Value(), tool)
			m[key] = found
		}
		return found
	})
}

// mentions reports whether a text contains a name as a word, or as several.
func mentions(content, name string) bool {
	name = wordBreak.ReplaceAllString(name, " ")
	return name != "" && strings.Contains(" "+wordBreak.ReplaceAllString(content, " ")+" ", " "+name+" ")
}

var wordBreak = regexp.MustCompile(`[^\w-]+`)
