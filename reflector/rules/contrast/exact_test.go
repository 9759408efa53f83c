package contrast

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// enumerate returns the probability of each total count, from all arrangements of the successes.
func enumerate(tables []table) map[int]float64 {
	sums := map[int]float64{0: 1}
	for _, t := range tables {
		counts, all := map[int]float64{}, 0.0
		for set := range uint(1) << t.n {
			if bits.OnesCount(set) == t.successes {
				counts[bits.OnesCount(set&(1<<t.did-1))]++
				all++
			}
		}
		next := map[int]float64{}
		for sum, p := range sums {
			for c, n := range counts {
				next[sum+c] += p * n / all
			}
		}
		sums = next
	}
	return sums
}

func atLeast(p map[int]float64, x int) (sum float64) {
	for c, q := range p {
		if c >= x {
			sum += q
		}
	}
	return sum
}

func randomTables(r *rand.Rand) []table {
	tables := make([]table, 1+r.IntN(4))
	for i := range tables {
		n := 2 + r.IntN(6)
		tables[i] = table{n: n, successes: 1 + r.IntN(n-1), did: 1 + r.IntN(n-1)}
	}
	return tables
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12+1e-9*math.Abs(b) }

// TestExact compares the p-value of the whole rule with enumeration, for every pair of counts of the halves.
func TestExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	log := newFactorials(10)
	for range 300 {
		ta, tb := randomTables(r), randomTables(r)
		ea, eb := enumerate(ta), enumerate(tb)
		a, b := convolver{log: log}, convolver{log: log}
		da, db := a.total(ta), b.total(tb)
		for x := range ea {
			for y := range eb {
				p, halves := joint(da, db, x, y)
				if !near(halves[0], atLeast(ea, x)) || !near(halves[1], atLeast(eb, y)) {
					t.Fatalf("halves of %v %v at %d, %d: %v, want %v, %v", ta, tb, x, y, halves, atLeast(ea, x), atLeast(eb, y))
				}
				if want := enumeratedRule(ea, eb, x, y); !near(p, want) {
					t.Fatalf("%v %v at %d, %d: %v, want %v", ta, tb, x, y, p, want)
				}
			}
		}
	}
}

func enumeratedRule(ea, eb map[int]float64, x, y int) float64 {
	confirmed := func(p map[int]float64, x int) bool { return atLeast(p, x) < confirmLevel-rounding }
	if !confirmed(ea, x) || !confirmed(eb, y) {
		return 1
	}
	sum := 0.0
	for i, p := range ea {
		for j, q := range eb {
			if i+j >= x+y && confirmed(ea, i) && confirmed(eb, j) {
				sum += p * q
			}
		}
	}
	return sum
}

// TestLevel checks that without effect a p-value of at most t has a probability of at most t, for both directions.
func TestLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	log := newFactorials(10)
	for range 200 {
		ta, tb := randomTables(r), randomTables(r)
		a, b := convolver{log: log}, convolver{log: log}
		da, db := a.total(ta), b.total(tb)
		type outcome struct{ p, probability float64 }
		var all []outcome
		for x, px := range enumerate(ta) {
			for y, py := range enumerate(tb) {
				up, _ := joint(da, db, x, y)
				down, _ := joint(da.mirror(), db.mirror(), -x, -y)
				all = append(all, outcome{min(1, 2*up, 2*down), px * py})
			}
		}
		for _, level := range all {
			sum := 0.0
			for _, o := range all {
				if o.p <= level.p {
					sum += o.probability
				}
			}
			if level.p < 1 && sum > level.p*(1+1e-9) {
				t.Fatalf("%v %v: p of at most %v has probability %v", ta, tb, level.p, sum)
			}
		}
	}
}

// TestSmallest checks that no counts have a smaller p-value than the margins allow, and that the distance from the
// mean excludes no counts that confirm.
func TestSmallest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s := newScorer(&matrix{largest: 12})
	for i := range 400 {
		ta, tb := randomTables(r), randomTables(r)
		if i%2 == 0 { // skewed
			for range 3 {
				ta = append(ta, table{n: 12, successes: 11, did: 1 + r.IntN(11)})
				tb = append(tb, table{n: 12, successes: 11, did: 1 + r.IntN(11)})
			}
		}
		load := func(h *half, tables []table, count int) {
			h.reset()
			for _, x := range tables {
				h.add(x, s.log)
			}
			h.count, h.runs = count, minCompared
		}
		a, b := convolver{log: s.log}, convolver{log: s.log}
		da, db := a.total(ta), b.total(tb)
		best, smallest := 1.0, 1.0
		for x := range enumerate(ta) {
			for y := range enumerate(tb) {
				load(&s.halves[0], ta, x)
				load(&s.halves[1], tb, y)
				p, _ := s.test()
				best, smallest = min(best, p), s.smallest()
				up, _ := joint(da, db, x, y)
				down, _ := joint(da.mirror(), db.mirror(), -x, -y)
				if want := min(1, 2*up, 2*down); !near(p, want) {
					t.Fatalf("%v %v at %d, %d: %v, want %v", ta, tb, x, y, p, want)
				}
			}
		}
		if !near(best, smallest) {
			t.Fatalf("%v %v: smallest p-value %v, announced %v", ta, tb, best, smallest)
		}
	}
}

// TestNormal compares the approximation with the exact distribution where the approximation begins.
func TestNormal(t *testing.T) {
	for _, x := range []table{{n: 5, successes: 2, did: 2}, {n: 10, successes: 1, did: 5}, {n: 20, successes: 1, did: 2}} {
		var tables []table
		for v := 0.0; v < normalVariance; v += x.variance() {
			tables = append(tables, x)
		}
		n := float64(len(tables))
		exact := newUpper((&convolver{log: newFactorials(20)}).total(tables))
		approximate := newUpper(normal(n*x.mean(), n*x.variance(), 0, len(tables)*2))
		for _, sd := range []float64{0, 1, 2, 3, 4} {
			at := int(n*x.mean() + sd*math.Sqrt(n*x.variance()))
			p, q := exact.atLeast(at), approximate.atLeast(at)
			t.Logf("%v: %.0f sd: exact %.3g, approximate %.3g", x, sd, p, q)
			if ratio := q / p; ratio < 0.5 || ratio > 2 {
				t.Errorf("%v at %v sd: %v, want %v within a factor of two", x, sd, q, p)
			}
		}
	}
}

// TestLargeTable checks a table whose extreme counts have a probability that underflows.
func TestLargeTable(t *testing.T) {
	x := table{n: 20_000, successes: 9_000, did: 5_000}
	d := newFactorials(x.n).hypergeometric(x, nil)
	sum, mean := 0.0, 0.0
	for i, p := range d.p {
		sum += p
		mean += p * float64(d.low+i)
	}
	if math.Abs(sum-1) > 1e-6 || math.Abs(mean-x.mean()) > 0.01 {
		t.Errorf("sum %v, mean %v; want 1, %v", sum, mean, x.mean())
	}
}
