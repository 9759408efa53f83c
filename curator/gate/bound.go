package gate

import (
	"fmt"
	"math"
	"slices"

	"debrief/playbook"
)

// Lift is the difference in the mean score with and without a bullet, from -1 to 1.
type Lift struct {
	Estimate float64 `json:"estimate"` // difference of the two means; 0 while one arm has no outcome
	// Low and High are one-sided confidence limits, each with the error probability alpha, valid at any time.
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Shown    int     `json:"shown"`    // number of outcomes with the bullet
	Withheld int     `json:"withheld"` // number of outcomes without it
}

// IsMeasured reports whether there are outcomes with the bullet and without it. It is false for nil.
func (l *Lift) IsMeasured() bool { return l != nil && l.Shown > 0 && l.Withheld > 0 }

func (l Lift) String() string {
	return fmt.Sprintf("lift %+.0f points (%+.0f to %+.0f)", 100*l.Estimate, 100*l.Low, 100*l.High)
}

// Lift returns the estimated lift of an experiment and its confidence limits. Without outcomes the limits are -1 and 1.
func (c Config) Lift(e *playbook.Experiment) Lift {
	c = c.WithDefaults()
	l := Lift{Low: -1, High: 1, Shown: e.Shown.Count(), Withheld: e.Withheld.Count()}
	if l.IsMeasured() {
		l.Estimate = e.Shown.Mean() - e.Withheld.Mean()
	}
	if l.Shown+l.Withheld == 0 {
		return l
	}
	// Low is the largest d for which "the lift is at most d" is refuted, and High the smallest d for which "the lift is at least d" is
	// refuted. largestRefuted finds a largest value, so High is searched as -d.
	threshold := math.Log(1 / c.Alpha)
	l.Low = largestRefuted(func(d float64) bool { return newGains(d, liftAbove).logWealth(e) >= threshold })
	l.High = -largestRefuted(func(d float64) bool { return newGains(-d, liftBelow).logWealth(e) >= threshold })
	if l.Low > l.High { // nearly all tasks are in one arm: no random assignment produces such counts, so they say nothing
		l.Low, l.High = -1, 1
	}
	return l
}

// Evidence returns two e-values of an experiment: harms against the hypothesis that the bullet does no harm, and helps against the
// hypothesis that it does not help. A value of at least 1/Alpha refutes the hypothesis. Without outcomes both are 1.
func (c Config) Evidence(e *playbook.Experiment) (harms, helps float64) {
	return math.Exp(min(harmGains.logWealth(e), maxEvidence)), math.Exp(min(benefitGains.logWealth(e), maxEvidence))
}

// maxEvidence limits the logarithm of an e-value, because JSON has no infinite number.
const maxEvidence = 700

// largestRefuted returns the largest d from -1 to 1 for which refuted returns true, with an accuracy of 0.001. It returns -1 if there is
// none. If refuted returns true for some d, it must do so for every smaller one.
func largestRefuted(refuted func(d float64) bool) float64 {
	low, high := -1.0, 1.0
	for high-low > 0.001 {
		if mid := (low + high) / 2; refuted(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// side is the alternative that wins its bets if a hypothesis is false.
type side int

const (
	liftAbove side = iota // the lift is above d, against the hypothesis "at most d"
	liftBelow             // the lift is below d, against the hypothesis "at least d"
)

// Each pair of a centre and a stake is one bet. See "The bound" in the comment of the package.
var (
	centres = [...]float64{0.05, 0.25, 0.5, 0.75, 0.95} // the constants m
	stakes  = [...]float64{0.8, 0.4, 0.2, 0.1, 0.05}    // as fractions of the largest stake that keeps every factor non-negative
)

const bets = len(centres) * len(stakes)

// gains are the logarithms of the factors by which one outcome multiplies the wealth of each bet, by arm (0 shown, 1 withheld), score and
// bet.
type gains [2][playbook.MaxScore + 1][bets]float64

// The gains against the two hypotheses that every decision tests. Their wealth is the e-value, see Config.Evidence.
var (
	benefitGains = newGains(0, liftAbove) // against "the bullet does not help": the lift is at most 0
	harmGains    = newGains(0, liftBelow) // against "the bullet does no harm": the lift is at least 0
)

// newGains returns the logarithms of the factors 1 + stake·(z - d) for liftAbove, or 1 + stake·(d - z) for liftBelow. z is 2·(y - m) for a
// task with the bullet, and -2·(y - m) for one without it.
func newGains(d float64, s side) *gains {
	g := new(gains)
	for i, m := range centres {
		maxZ := 2 * max(m, 1-m) // z is from -maxZ to maxZ
		for j, fraction := range stakes {
			bet := i*len(stakes) + j
			for score := range playbook.MaxScore + 1 {
				shown := 2 * (float64(score)/playbook.MaxScore - m) // z of a task with the bullet
				for arm, z := range [2]float64{shown, -shown} {
					win, maxLoss := z-d, d+maxZ // win is at least -maxLoss
					if s == liftBelow {
						win, maxLoss = d-z, maxZ-d
					}
					g[arm][score][bet] = math.Log1p(fraction * win / max(maxLoss, minLoss))
				}
			}
		}
	}
	return g
}

// minLoss keeps the stakes finite if no outcome can reduce the wealth.
const minLoss = 1e-9

// logWealth returns the logarithm of the mean wealth of all bets after the outcomes of an experiment.
func (g *gains) logWealth(e *playbook.Experiment) float64 {
	var logs [bets]float64
	for arm, counts := range [2]*playbook.Scores{&e.Shown, &e.Withheld} {
		for score, n := range counts {
			for bet, gain := range g[arm][score] {
				logs[bet] += float64(n) * gain
			}
		}
	}
	// The largest logarithm is factored out of the sum, so that no exponential overflows.
	largest := slices.Max(logs[:])
	sum := 0.0
	for _, l := range logs {
		sum += math.Exp(l - largest)
	}
	return largest + math.Log(sum/float64(bets))
}
