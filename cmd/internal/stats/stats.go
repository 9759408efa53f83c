// Package stats says how sure a measurement is: intervals of 95 % and the chance of a difference. It knows numbers, and
// nothing of what they are of.
package stats

import (
	"fmt"
	"math"
)

// Estimate is a value with its interval of 95 %, from N observations.
type Estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"`
}

// Percent shows a share, for a table whose columns tabs part.
func (e Estimate) Percent() string {
	return fmt.Sprintf("%.1f %%\t%.1f to %.1f", 100*e.Mean, 100*e.Low, 100*e.High)
}

// student are the 97.5 % points of Student's t for 1, 2, 3 … degrees of freedom.
var student = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
	2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// Mean is the mean of values, with Student's interval. Of more than 31 the interval is a little too wide: it keeps the
// last point of the table. One value has an interval without ends.
func Mean(xs []float64) Estimate {
	n := float64(len(xs))
	e := Estimate{N: len(xs)}
	for _, x := range xs {
		e.Mean += x / n
	}
	if len(xs) < 2 {
		e.Low, e.High = math.Inf(-1), math.Inf(1)
		return e
	}
	square := 0.0
	for _, x := range xs {
		square += (x - e.Mean) * (x - e.Mean)
	}
	half := student[min(len(xs)-1, len(student))-1] * math.Sqrt(square/(n-1)/n)
	e.Low, e.High = e.Mean-half, e.Mean+half
	return e
}

// normal is the 97.5 % point of the normal distribution.
const normal = 1.959964

// Share is how many of so many, with the score interval (Wilson, "Probable inference, the law of succession, and
// statistical inference", 1927). Of none it is anything from 0 to 1.
func Share(part, of int) Estimate {
	if of == 0 {
		return Estimate{Low: 0, High: 1}
	}
	n := float64(of)
	p := float64(part) / n
	middle := p + normal*normal/(2*n)
	half := normal * math.Sqrt(p*(1-p)/n+normal*normal/(4*n*n))
	scale := 1 + normal*normal/n
	return Estimate{Mean: p, Low: max(0, (middle-half)/scale), High: min(1, (middle+half)/scale), N: of}
}

// Pair compares two ways to answer the same samples. It has the fields of report.Pair.
type Pair struct {
	N          int
	Difference float64 // of the shares that are right, after less before
	Low        float64 // 95 % interval of it
	High       float64
	Wins       int // right after and wrong before
	Losses     int
	P          float64 // of so uneven wins and losses by chance, two-sided
}

// Paired compares samples, right or not, before and after: the two are as long as each other, and the same place is the
// same sample.
//
// The interval is that of Newcombe, "Improved confidence intervals for the difference between binomial proportions based
// on paired data" (Statistics in Medicine 17, 1998), method 10: Wilson's intervals of the two shares, squared and added
// with what the two have in common. P is that of McNemar's exact test: of the samples that came out differently each is
// a win or a loss with the same chance.
func Paired(before, after []bool) Pair {
	var both, neither int
	p := Pair{N: len(before), Low: -1, High: 1, P: 1}
	for i := range before {
		switch {
		case before[i] && after[i]:
			both++
		case after[i]:
			p.Wins++
		case before[i]:
			p.Losses++
		default:
			neither++
		}
	}
	if p.N == 0 {
		return p
	}
	p.P = mcnemar(p.Wins, p.Losses)
	is, was := Share(both+p.Wins, p.N), Share(both+p.Losses, p.N)
	p.Difference = float64(p.Wins-p.Losses) / float64(p.N)
	phi := correlation(both, p.Wins, p.Losses, neither)
	added := func(a, b float64) float64 { return math.Sqrt(max(0, a*a-2*phi*a*b+b*b)) }
	p.Low = max(-1, p.Difference-added(is.Mean-is.Low, was.High-was.Mean))
	p.High = min(1, p.Difference+added(is.High-is.Mean, was.Mean-was.Low))
	return p
}

// correlation is that of a table of two by two, with Newcombe's correction for continuity where it is positive.
func correlation(a, b, c, d int) float64 {
	sides := float64(a+b) * float64(c+d) * float64(a+c) * float64(b+d)
	if sides == 0 {
		return 0
	}
	over := float64(a)*float64(d) - float64(b)*float64(c)
	if over > 0 {
		over = max(0, over-float64(a+b+c+d)/2)
	}
	return over / math.Sqrt(sides)
}

// mcnemar is twice the chance of at most the fewer of the two, were each as likely as the other.
func mcnemar(wins, losses int) float64 {
	n, few := wins+losses, min(wins, losses)
	whole, _ := math.Lgamma(float64(n + 1))
	sum := 0.0
	for k := range few + 1 {
		x, _ := math.Lgamma(float64(k + 1))
		y, _ := math.Lgamma(float64(n - k + 1))
		sum += math.Exp(whole - x - y - float64(n)*math.Ln2)
	}
	return min(1, 2*sum)
}
