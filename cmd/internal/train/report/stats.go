package report

import (
	"fmt"
	"math"
)

// Estimate is a value with its 95 % confidence interval, from N observations.
type Estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"`
}

// Percent formats a share as two cells of a tab-separated table.
func (e Estimate) Percent() string {
	return fmt.Sprintf("%.1f %%\t%.1f to %.1f", 100*e.Mean, 100*e.Low, 100*e.High)
}

// normal is the 97.5 % point of the normal distribution.
const normal = 1.959964

// Share returns part/of with the score interval (Wilson, "Probable inference, the law of succession, and statistical
// inference", 1927). If of is 0, the interval is 0 to 1.
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

// Pair compares the results of the same samples before and after.
type Pair struct {
	N          int     `json:"n"`          // samples with a result both times
	Difference float64 `json:"difference"` // of the success rates, after minus before, in -1 to 1
	Low        float64 `json:"low"`        // 95 % interval of it
	High       float64 `json:"high"`
	Wins       int     `json:"wins"` // success after and failure before
	Losses     int     `json:"losses"`
	P          float64 `json:"p"` // two-sided p-value of McNemar's exact test
}

// Paired compares the results of samples before and after. Both slices have the same length, and equal indexes are
// the same sample.
//
// The interval is method 10 of Newcombe, "Improved confidence intervals for the difference between binomial
// proportions based on paired data" (Statistics in Medicine 17, 1998). It combines Wilson's intervals of the two
// rates with their correlation. P is the p-value of McNemar's exact test: under the null hypothesis each sample with
// a changed result is a win or a loss with equal probability.
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
	rateAfter, rateBefore := Share(both+p.Wins, p.N), Share(both+p.Losses, p.N)
	p.Difference = float64(p.Wins-p.Losses) / float64(p.N)
	phi := correlation(both, p.Wins, p.Losses, neither)
	combined := func(a, b float64) float64 { return math.Sqrt(max(0, a*a-2*phi*a*b+b*b)) }
	p.Low = max(-1, p.Difference-combined(rateAfter.Mean-rateAfter.Low, rateBefore.High-rateBefore.Mean))
	p.High = min(1, p.Difference+combined(rateAfter.High-rateAfter.Mean, rateBefore.Mean-rateBefore.Low))
	return p
}

// correlation returns the phi coefficient of the two-by-two table with the rows a, b and c, d. A positive one has Newcombe's continuity
// correction.
func correlation(a, b, c, d int) float64 {
	margins := float64(a+b) * float64(c+d) * float64(a+c) * float64(b+d)
	if margins == 0 {
		return 0
	}
	determinant := float64(a)*float64(d) - float64(b)*float64(c)
	if determinant > 0 {
		determinant = max(0, determinant-float64(a+b+c+d)/2)
	}
	return determinant / math.Sqrt(margins)
}

// mcnemar returns twice the probability of at most min(wins, losses) among wins+losses fair coin flips.
func mcnemar(wins, losses int) float64 {
	n, few := wins+losses, min(wins, losses)
	logFactorial := func(n int) float64 {
		log, _ := math.Lgamma(float64(n + 1))
		return log
	}
	sum := 0.0
	for k := range few + 1 {
		sum += math.Exp(logFactorial(n) - logFactorial(k) - logFactorial(n-k) - float64(n)*math.Ln2)
	}
	return min(1, 2*sum)
}
