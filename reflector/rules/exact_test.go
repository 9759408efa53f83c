package rules

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

// TestExact compares p-values with enumeration, for every total count, and checks that no count has a smaller one than the margins allow.
func TestExact(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		tables := randomTables(r)
		low := 0
		for _, x := range tables {
			smallest, _ := x.limits()
			low += smallest
		}
		enumerated := enumerate(tables)
		best, announced := 1.0, 1.0
		for total := range enumerated {
			left := total - low // give each table as much as it can take
			for i := range tables {
				smallest, largest := tables[i].limits()
				more := min(left, largest-smallest)
				tables[i].both = smallest + more
				left -= more
			}
			atMost := 1 - atLeast(enumerated, total+1)
			want := min(1, 2*atLeast(enumerated, total), 2*atMost)
			p, smallest := probability(tables)
			if !near(p, want) {
				t.Fatalf("%v with a total of %d: got %v, want %v", tables, total, p, want)
			}
			best, announced = min(best, p), smallest
		}
		if !near(best, announced) {
			t.Fatalf("%v: smallest p-value %v, announced %v", tables, best, announced)
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
		for _, sd := range []float64{1, 2, 3, 4} {
			total := int(n*x.mean() + sd*math.Sqrt(n*x.variance()))
			for i := range tables { // the observed counts: as even as possible
				tables[i].both = total*(i+1)/len(tables) - total*i/len(tables)
			}
			approximate, _ := probability(tables)
			low, all := distribution(tables)
			exact := 0.0
			for _, q := range all[total-low:] {
				exact += 2 * q
			}
			t.Logf("%v: %.0f sd: exact %.3g, approximate %.3g", x, sd, exact, approximate)
			if ratio := approximate / exact; ratio < 0.5 || ratio > 2 {
				t.Errorf("%v at %v sd: %v, want %v within a factor of two", x, sd, approximate, exact)
			}
		}
	}
}

// TestLargeTable checks a table whose extreme counts have a probability that underflows.
func TestLargeTable(t *testing.T) {
	x := table{n: 20_000, successes: 9_000, did: 5_000}
	low, p := distribution([]table{x})
	total, mean := 0.0, 0.0
	for i, q := range p {
		total += q
		mean += q * float64(low+i)
	}
	if math.Abs(total-1) > 1e-6 || math.Abs(mean-x.mean()) > 0.01 {
		t.Errorf("sum %v, mean %v; want 1, %v", total, mean, x.mean())
	}
}
