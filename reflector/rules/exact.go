package rules

import "math"

// normalVariance is the variance above which the normal approximation replaces the exact distribution. The skewness of the sum is at
// most 0.05 there.
const normalVariance = 400

// table counts the n runs of a stratum: those that succeeded, those that did the habit, and those that did both.
type table struct{ n, successes, did, both int }

// count adds a run.
func (t *table) count(did, success bool) {
	t.n++
	if did {
		t.did++
	}
	if success {
		t.successes++
	}
	if did && success {
		t.both++
	}
}

// limits returns the smallest and the largest value of both that the other counts (the margins) allow.
func (t table) limits() (low, high int) {
	return max(0, t.successes+t.did-t.n), min(t.successes, t.did)
}

func (t table) mean() float64 {
	return float64(t.did) * float64(t.successes) / float64(t.n)
}

// variance requires at least two runs, as every table of a candidate has: see candidate.add.
func (t table) variance() float64 {
	n, d, k := float64(t.n), float64(t.did), float64(t.successes)
	return d * k * (n - d) * (n - k) / (n * n * (n - 1))
}

// hypergeometric returns the probabilities of all values of both, from the smallest to the largest, if the habit has no effect.
func (t table) hypergeometric() []float64 {
	low, high := t.limits()
	all := logChoose(t.n, t.did)
	var p []float64
	for x := low; x <= high; x++ {
		p = append(p, math.Exp(logChoose(t.successes, x)+logChoose(t.n-t.successes, t.did-x)-all))
	}
	return p
}

// logChoose returns the logarithm of the number of subsets with k of n elements.
func logChoose(n, k int) float64 {
	return logFactorial(n) - logFactorial(k) - logFactorial(n-k)
}

func logFactorial(n int) float64 {
	f, _ := math.Lgamma(float64(n + 1))
	return f
}

// negligible is the probability below which the ends of a distribution are cut.
const negligible = 1e-30

// distribution returns the distribution of the sum of both over all tables: the probabilities of low, low+1 and so on.
func distribution(tables []table) (low int, p []float64) {
	p = []float64{1}
	for _, t := range tables {
		ofTable := t.hypergeometric()
		next := make([]float64, len(p)+len(ofTable)-1)
		for i, x := range p {
			for j, y := range ofTable {
				next[i+j] += x * y
			}
		}
		smallest, _ := t.limits()
		low += smallest
		for len(next) > 1 && next[0] < negligible {
			next = next[1:]
			low++
		}
		for len(next) > 1 && next[len(next)-1] < negligible {
			next = next[:len(next)-1]
		}
		p = next
	}
	return low, p
}

// probability returns the two-sided p-value of the sum of both over all tables: twice the probability of a sum at least as high, or at least as
// low, whichever is smaller, if the habit has no effect. smallest is the smallest p-value that the margins allow; it is 0 where the normal
// approximation applies.
func probability(tables []table) (p, smallest float64) {
	var mean, variance float64
	count := 0
	for _, t := range tables {
		mean += t.mean()
		variance += t.variance()
		count += t.both
	}
	if variance > normalVariance { // with a correction for continuity
		return math.Erfc(max(0, math.Abs(float64(count)-mean)-0.5) / math.Sqrt(2*variance)), 0
	}
	low, all := distribution(tables)
	var atLeast, atMost float64
	for i, x := range all {
		if low+i >= count {
			atLeast += x
		}
		if low+i <= count {
			atMost += x
		}
	}
	p = max(negligible, min(1, 2*atLeast, 2*atMost))
	return p, min(1, 2*all[0], 2*all[len(all)-1])
}
