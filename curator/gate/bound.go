package gate

import (
	"fmt"
	"math"
	"sync"

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

func (l Lift) String() string {
	return fmt.Sprintf("lift %+.0f points (%+.0f to %+.0f)", 100*l.Estimate, 100*l.Low, 100*l.High)
}

// Lift returns the estimated lift of an experiment and its confidence limits. Without outcomes the limits are -1 and 1.
func (c Config) Lift(e *playbook.Experiment) Lift {
	c = c.WithDefaults()
	l := Lift{Low: -1, High: 1, Shown: e.Shown.Count(), Withheld: e.Withheld.Count()}
	if l.Shown > 0 && l.Withheld > 0 {
		l.Estimate = e.Shown.Mean() - e.Withheld.Mean()
	}
	if l.Shown+l.Withheld == 0 {
		return l
	}
	// Low is the largest d for which "the lift is at most d" is refuted: the wealth against it decreases with d. High is the smallest d for
	// which "the lift is at least d" is refuted: the wealth against it increases with d, so the search is for the largest -d.
	threshold := math.Log(1 / c.Alpha)
	l.Low = largestRefuted(func(d float64) bool { return wealthAt(e, d, above) >= threshold })
	l.High = -largestRefuted(func(d float64) bool { return wealthAt(e, -d, below) >= threshold })
	if l.Low > l.High { // nearly all tasks are in one arm: no random assignment produces such counts, so they say nothing
		l.Low, l.High = -1, 1
	}
	return l
}

// Evidence returns the e-values of an experiment: harms against the hypothesis that the bullet does no harm, and helps against the
// hypothesis that it does not help. A value of 1/Alpha refutes the hypothesis. Without outcomes both are 1.
func (c Config) Evidence(e *playbook.Experiment) (harms, helps float64) {
	return math.Exp(min(wealth(e, below), maxEvidence)), math.Exp(min(wealth(e, above), maxEvidence))
}

// maxEvidence limits the logarithm of an e-value, which JSON must represent.
const maxEvidence = 700

// largestRefuted returns the largest d from -1 to 1 for which the hypothesis is refuted, with an accuracy of 0.001. It
// returns -1 if it is refuted for no d.
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

// The two alternatives that a bet can support.
const (
	above = iota // against "the lift is at most d"
	below        // against "the lift is at least d"
)

// Each pair of a centre and a stake is one bet; the wealth is the mean over all of them. See "The bound" in the comment of the package.
var (
	centres = [...]float64{0.05, 0.25, 0.5, 0.75, 0.95} // the constants m
	stakes  = [...]float64{0.8, 0.4, 0.2, 0.1, 0.05}    // as fractions of the largest stake that keeps every factor non-negative
)

const mixed = len(centres) * len(stakes)

// gains are the logarithms of the factors by which one outcome multiplies the wealth of each bet, by arm and score.
type gains [2][playbook.MaxScore + 1][mixed]float64

// bet holds the parameters of gains.
type bet struct {
	d    float64 // of the hypothesis
	side int     // above or below
}

// noEffectGains has the gains for the hypothesis that the lift is 0, which every decision tests, by side.
var noEffectGains = [...]func() *gains{
	above: sync.OnceValue(bet{side: above}.gains),
	below: sync.OnceValue(bet{side: below}.gains),
}

// wealth returns the logarithm of the mean wealth of the bets against the hypothesis that the lift is at most 0 (above) or at least 0
// (below).
func wealth(e *playbook.Experiment, side int) float64 { return noEffectGains[side]().of(e) }

// wealthAt is wealth for the hypothesis that the lift is at most d (above) or at least d (below).
func wealthAt(e *playbook.Experiment, d float64, side int) float64 {
	return bet{d, side}.gains().of(e)
}

// gains returns the logarithms of the factors 1 + stake·(z - d), or 1 + stake·(d - z) below. z is 2·(y - m) for a task with the bullet, and
// -2·(y - m) for one without it, see the comment of the package.
func (b bet) gains() *gains {
	g := new(gains)
	for i, m := range centres {
		least, most := -2*max(m, 1-m), 2*max(m, 1-m) // the limits of z
		for j, part := range stakes {
			at := i*len(stakes) + j
			for score := range playbook.MaxScore + 1 {
				excess := float64(score)/playbook.MaxScore - m
				for arm, z := range [2]float64{2 * excess, -2 * excess} {
					// The divisor makes the largest stake (part 1) the one with which the worst z, least or most, reduces the wealth to 0.
					switch b.side {
					case above:
						g[arm][score][at] = math.Log1p(part * (z - b.d) / max(b.d-least, tiny))
					default:
						g[arm][score][at] = math.Log1p(part * (b.d - z) / max(most-b.d, tiny))
					}
				}
			}
		}
	}
	return g
}

// tiny keeps the stakes finite if no outcome can reduce the wealth.
const tiny = 1e-9

// of returns the logarithm of the mean wealth over all bets.
func (g *gains) of(e *playbook.Experiment) float64 {
	var logs [mixed]float64
	for arm, counts := range [2]*playbook.Scores{&e.Shown, &e.Withheld} {
		for score, n := range counts {
			if n == 0 {
				continue
			}
			row, times := &g[arm][score], float64(n)
			for i := range logs {
				logs[i] += times * row[i]
			}
		}
	}
	best := logs[0]
	for _, l := range logs[1:] {
		best = max(best, l)
	}
	sum := 0.0
	for _, l := range logs {
		if l > best-40 { // e^-40 is negligible
			sum += math.Exp(l - best)
		}
	}
	return best + math.Log(sum/float64(mixed))
}
