package contrast

import (
	"math"
	"slices"
)

const (
	// negligible is the probability below which the ends of a distribution are cut.
	negligible = 1e-30
	// rounding is the error of a probability by floating point that comparisons allow for: 1/10 is not less than 0.1.
	rounding = 1e-9
	// normalVariance is the variance above which the normal approximation replaces the exact distribution. The
	// skewness of the sum is at most 0.05 there.
	normalVariance = 400
)

// table has the margins of a 2x2 table: runs, successes and runs that followed the candidate; and the count of
// successes among the latter.
type table struct{ n, successes, did, both int }

// limits returns the smallest and the largest count that the margins allow.
func (t table) limits() (low, high int) {
	return max(0, t.successes+t.did-t.n), min(t.successes, t.did)
}

func (t table) mean() float64 {
	return float64(t.did) * float64(t.successes) / float64(t.n)
}

func (t table) variance() float64 {
	n, d, k := float64(t.n), float64(t.did), float64(t.successes)
	return d * k * (n - d) * (n - k) / (n * n * (n - 1))
}

// factorials has the natural logarithm of the factorial of each index.
type factorials []float64

func newFactorials(n int) factorials {
	f := make(factorials, n+1)
	for i := 2; i <= n; i++ {
		f[i] = f[i-1] + math.Log(float64(i))
	}
	return f
}

// logProbability returns the logarithm of the hypergeometric probability of x.
func (f factorials) logProbability(t table, x int) float64 {
	return f[t.successes] - f[x] - f[t.successes-x] +
		f[t.n-t.successes] - f[t.did-x] - f[t.n-t.successes-t.did+x] -
		f[t.n] + f[t.did] + f[t.n-t.did]
}

// distribution has the probabilities of low, low+1 and so on.
type distribution struct {
	low int
	p   []float64
}

// hypergeometric returns the distribution of the count of a table. It starts at the mode, so that no probability of
// weight is lost to underflow. The result uses the buffer.
func (f factorials) hypergeometric(t table, buffer []float64) distribution {
	low, high := t.limits()
	mode := min(max((t.successes+1)*(t.did+1)/(t.n+2), low), high)
	ratio := func(x int) float64 { // P(x+1) / P(x)
		return float64(t.successes-x) * float64(t.did-x) / (float64(x+1) * float64(t.n-t.successes-t.did+x+1))
	}
	top := math.Exp(f.logProbability(t, mode))
	p, first := buffer[:0], mode
	for q := top; first > low; first-- {
		if q /= ratio(first - 1); q < negligible {
			break
		}
		p = append(p, q)
	}
	slices.Reverse(p)
	p = append(p, top)
	for x, q := mode, top; x < high; x++ {
		if q *= ratio(x); q < negligible {
			break
		}
		p = append(p, q)
	}
	return distribution{low: first, p: p}
}

// convolver adds independent counts. Its buffers are reused, one for each half.
type convolver struct {
	log       factorials
	one       []float64
	sum, next []float64
}

// total returns the distribution of the sum of the counts of the tables. It is valid until the next call.
func (c *convolver) total(tables []table) distribution {
	c.sum = append(c.sum[:0], 1)
	low := 0
	for _, t := range tables {
		d := c.log.hypergeometric(t, c.one)
		c.one = d.p
		size := len(c.sum) + len(d.p) - 1
		c.next = slices.Grow(c.next[:0], size)[:size]
		clear(c.next)
		for j, q := range d.p {
			for i, p := range c.sum {
				c.next[i+j] += p * q
			}
		}
		low += d.low
		first, last := 0, len(c.next)
		for first < last-1 && c.next[first] < negligible {
			first++
		}
		for last > first+1 && c.next[last-1] < negligible {
			last--
		}
		low += first
		c.sum = append(c.sum[:0], c.next[first:last]...)
	}
	return distribution{low: low, p: c.sum}
}

// normal returns the normal approximation with a correction for continuity: each count has the probability of the
// interval of one around it.
func normal(mean, variance float64, low, high int) distribution {
	sd := math.Sqrt(variance)
	low, high = max(low, int(mean-12*sd)), min(high, int(mean+12*sd)+1)
	p := make([]float64, 0, high-low+1)
	for x := low; x <= high; x++ {
		off := math.Abs(float64(x) - mean)
		near, far := (off-0.5)/(sd*math.Sqrt2), (off+0.5)/(sd*math.Sqrt2)
		p = append(p, (math.Erfc(near)-math.Erfc(far))/2)
	}
	return distribution{low: low, p: p}
}

// tails returns the probability of at least low+i for each index i, and a last zero.
func (d distribution) tails() []float64 {
	tails := make([]float64, len(d.p)+1)
	for i := len(d.p) - 1; i >= 0; i-- {
		tails[i] = tails[i+1] + d.p[i]
	}
	return tails
}

// mirror returns the distribution of the negative count.
func (d distribution) mirror() distribution {
	p := slices.Clone(d.p)
	slices.Reverse(p)
	return distribution{low: -(d.low + len(d.p) - 1), p: p}
}

// upper has the tail of a half: the smallest count that confirms, and probabilities.
type upper struct {
	distribution
	tail     []float64
	critical int
}

func newUpper(d distribution) upper {
	u := upper{distribution: d, tail: d.tails(), critical: d.low}
	for u.tail[u.critical-d.low] >= confirmLevel-rounding {
		u.critical++
	}
	return u
}

// atLeast returns the probability of at least x.
func (u upper) atLeast(x int) float64 {
	return u.tail[min(max(x-u.low, 0), len(u.tail)-1)]
}

// joint returns the probability that both halves confirm with a total of at least a+b, and the tail of each half.
// The probability is one if a half does not confirm.
func joint(da, db distribution, a, b int) (p float64, halves [2]float64) {
	x, y := newUpper(da), newUpper(db)
	halves = [2]float64{max(x.atLeast(a), negligible), max(y.atLeast(b), negligible)}
	if a < x.critical || b < y.critical {
		return 1, halves
	}
	for i := x.critical; i < x.low+len(x.p); i++ {
		p += x.p[i-x.low] * y.atLeast(max(y.critical, a+b-i))
	}
	return max(p, negligible), halves
}
