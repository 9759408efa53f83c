package contrast

import (
	"math"
	"os"
	"slices"
	"testing"
)

// scores has the one-sided p-values of a candidate for both directions: helps, hurts.
type scores struct {
	id            ID
	all           [2]float64
	halves        [2][2]float64 // by half, then direction
	whole         float64       // p-value of the package
	smallest      float64
	smallestTotal float64
}

func scoresOf(runs []Run) []scores {
	d := New(Config{})
	for _, r := range runs {
		d.Add(r)
	}
	m := d.matrix()
	s := newScorer(m)
	var out []scores
	for _, c := range m.columns {
		s.load(c.entries, m.success)
		x := scores{id: c.ids[0], smallest: s.smallest()}
		x.whole, _ = s.test()
		a, b := &s.halves[0], &s.halves[1]
		both := append(slices.Clone(a.tables), b.tables...)
		x.smallestTotal = 2 * math.Exp(min(a.logHigh+b.logHigh, a.logLow+b.logLow))
		for h, part := range [][]table{a.tables, b.tables, both} {
			dist := (&convolver{log: s.log}).total(part)
			count := 0
			for _, t := range part {
				count += t.both
			}
			p := [2]float64{newUpper(dist).atLeast(count), newUpper(dist.mirror()).atLeast(-count)}
			if h < 2 {
				x.halves[h] = p
			} else {
				x.all = p
			}
		}
		out = append(out, x)
	}
	return out
}

// bh returns the candidates that the step-up procedure of the package rejects, for other p-values.
func bh(all []scores, tested func(scores) float64, p func(scores) float64) []ID {
	var attain []float64
	for _, x := range all {
		attain = append(attain, tested(x))
	}
	limit := testable(attain)
	n := 0
	var ps []float64
	for i := range all {
		if attain[i] <= limit {
			n++
			ps = append(ps, p(all[i]))
		}
	}
	slices.Sort(ps)
	bound := stepUp(ps, n)
	var out []ID
	for i, x := range all {
		if attain[i] <= limit && p(x) <= bound {
			out = append(out, x.id)
		}
	}
	return out
}

func twoSided(x scores) float64   { return min(1, 2*min(x.all[0], x.all[1])) }
func attainable(x scores) float64 { return x.smallestTotal }

func confirms(x scores, level float64) bool {
	return max(x.halves[0][0], x.halves[1][0]) < level || max(x.halves[0][1], x.halves[1][1]) < level
}

// split selects in one half below a lenient level and confirms in the other with Holm's procedure.
func split(all []scores, from int, lenient, level float64) []ID {
	type pick struct {
		id ID
		p  float64
	}
	var picked []pick
	for _, x := range all {
		dir := 0
		if x.halves[from][1] < x.halves[from][0] {
			dir = 1
		}
		if x.halves[from][dir] < lenient {
			picked = append(picked, pick{x.id, x.halves[1-from][dir]})
		}
	}
	slices.SortFunc(picked, func(a, b pick) int {
		if a.p < b.p {
			return -1
		}
		return 1
	})
	var out []ID
	for i, c := range picked {
		if c.p > level/float64(len(picked)-i) {
			break
		}
		out = append(out, c.id)
	}
	return out
}

// designs are the procedures that were compared before one was chosen.
var designs = []struct {
	name string
	show func([]scores) []ID
}{
	{"total, FDR 5 %, no halves", func(a []scores) []ID { return bh(a, attainable, twoSided) }},
	{"total, FDR 5 %, then halves confirm", func(a []scores) []ID {
		return bh(a, attainable, func(x scores) float64 {
			if !confirms(x, confirmLevel) {
				return 1
			}
			return twoSided(x)
		})
	}},
	{"select in A < 0.2, Holm 5 % in B", func(a []scores) []ID { return split(a, 0, .2, .05) }},
	{"both directions, Holm 2.5 % each", func(a []scores) []ID {
		out := append(split(a, 0, .2, .025), split(a, 1, .2, .025)...)
		slices.Sort(out)
		return slices.Compact(out)
	}},
	{"whole rule, FDR 5 %", func(a []scores) []ID {
		return bh(a, func(x scores) float64 { return x.smallest }, func(x scores) float64 { return x.whole })
	}},
}

var worlds = []struct {
	name string
	world
}{
	{"no effect, 20", world{tasks: 30, runs: 5, candidates: 20, spread: .4}},
	{"no effect, 200, by task, strong spread, 2 agents", world{tasks: 30, runs: 10, agents: 2, candidates: 200, spread: .7, byTask: true}},
	{"no effect, 200, correlated", world{tasks: 30, runs: 5, candidates: 200, spread: .4, correlated: true}},
	{"no effect, 2000", world{tasks: 30, runs: 5, candidates: 2000, spread: .4}},
	{"1 planted, 20", world{tasks: 30, runs: 5, candidates: 20, planted: 1, effect: .4, spread: .4}},
	{"1 planted, 200", world{tasks: 30, runs: 5, candidates: 200, planted: 1, effect: .4, spread: .4}},
	{"1 planted, 200, correlated", world{tasks: 30, runs: 5, candidates: 200, planted: 1, effect: .4, spread: .4, correlated: true}},
	{"1 planted, 2000", world{tasks: 30, runs: 5, candidates: 2000, planted: 1, effect: .4, spread: .4}},
	{"5 planted, 20, 5 x 30 tasks", world{groups: 5, tasks: 30, runs: 5, candidates: 20, planted: 5, effect: .4, spread: .4}},
	{"5 planted, 200, 5 x 30 tasks", world{groups: 5, tasks: 30, runs: 5, candidates: 200, planted: 5, effect: .4, spread: .4}},
	{"5 planted, 2000, 5 x 30 tasks", world{groups: 5, tasks: 30, runs: 5, candidates: 2000, planted: 5, effect: .4, spread: .4}},
}

// TestDesigns prints the comparison of procedures. It takes a minute, so it runs only on request.
func TestDesigns(t *testing.T) {
	if os.Getenv("CONTRAST_DESIGNS") == "" {
		t.Skip("set CONTRAST_DESIGNS=1 to print the comparison of procedures")
	}
	for _, w := range worlds {
		sets := 200
		if w.candidates > 200 {
			sets = 60
		}
		found, wrong, shown, anyShown := make([]int, len(designs)), make([]int, len(designs)), make([]int, len(designs)), make([]int, len(designs))
		for seed := range sets {
			all := scoresOf(w.generate(uint64(seed)))
			for i, d := range designs {
				ids := d.show(all)
				for _, id := range ids {
					if int(id) < w.planted {
						found[i]++
					} else {
						wrong[i]++
					}
				}
				shown[i] += len(ids)
				if len(ids) > 0 {
					anyShown[i]++
				}
			}
		}
		t.Logf("%s (%d data sets)", w.name, sets)
		for i, d := range designs {
			t.Logf("   %-36s found %5.1f %%  false %5.1f %%  any %5.1f %%", d.name,
				100*float64(found[i])/float64(max(1, w.planted*sets)), 100*float64(wrong[i])/float64(max(1, shown[i])), 100*float64(anyShown[i])/float64(sets))
		}
	}
}
