// Package gate decides from randomized experiments whether a bullet helps. A bullet on probation is shown to a random
// share of the tasks to which it is applicable, and withheld from the others. The two groups differ only at random, so
// the difference between their outcomes is the effect of the bullet. Votes cannot measure this effect, because they also
// depend on the difficulty of the tasks.
//
// # The bound
//
// Each outcome y, a score from 0 to 1, becomes
//
//	z = (y - m) · (1/p if shown, -1/(1-p) if withheld)
//
// where p is the share of tasks that are shown the bullet, and m is any constant. The arm is random, so the expected value
// of z is the lift, independent of the task, the other bullets and the model. This is the inverse probability weighting of
// Horvitz and Thompson (1952). It holds for each outcome given all earlier ones; outcomes need not be independent.
//
// The test of the hypothesis "the lift is at most d" is a betting martingale. If the hypothesis is true, the product of
// 1 + b·(z - d), with stakes b so small that each factor is positive, is a non-negative supermartingale. It reaches 1/α
// with a probability of at most α, even if it is checked after every outcome (Ville 1939). So an experiment can stop at
// any time. The mean of several such products is a supermartingale too. The package takes the mean over five constants m
// and five stakes, because the best ones are not known in advance (Waudby-Smith and Ramdas, "Estimating means of bounded
// random variables by betting", 2024). The stakes are fixed, so the product depends only on the number of outcomes of
// each kind and not on their order. Therefore an experiment stores only counts, and outcomes can be added in any order and
// removed again.
//
// # The queue
//
// Evaluate returns the verdict on one experiment. Queue decides on all bullets of a playbook: which ones are promoted, retired,
// tested again or put on probation. It changes bullets only through the function of its caller.
package gate

import (
	"cmp"
	"fmt"
	"math"
	"sync"
	"time"

	"debrief/events/config"
	"debrief/playbook"
)

// Config configures the gate. A zero field has its default.
type Config struct {
	Alpha   float64 // error probability for each bullet: promotion of a bullet that does not help; default 0.05
	Margin  float64 // lift of the mean score (0 to 1) that a bullet must exceed to be promoted; default 0
	MinLift float64 // lift of the mean score; a bullet retires if its lift is certainly below this; default 0.05
	Share   int     // percent of the applicable tasks that are shown a bullet on probation; default 50
	Slots   int     // maximum number of bullets on probation in one playbook; default 8

	MaxOutcomes int // maximum number of outcomes of an experiment; without a result, the bullet retires; default 2,000
	// RetryRequests is the number of requests after which a retired, harmless bullet is tried again, for each earlier
	// experiment. It gives a second chance to bullets that help but had bad luck: the gate's decisions have an error
	// probability. The default is 20.
	RetryRequests int
	// IdleTimeout is the time without an applicable task after which a bullet on probation retires if others wait. It frees
	// the slot of a bullet that is applicable to no task. The default is 7 days.
	IdleTimeout time.Duration
}

// WithDefaults replaces zero fields by their defaults.
func (c Config) WithDefaults() Config {
	c.Alpha = cmp.Or(c.Alpha, 0.05)
	c.MinLift = cmp.Or(c.MinLift, 0.05)
	c.Share = cmp.Or(c.Share, 50)
	c.Slots = cmp.Or(c.Slots, 8)
	c.MaxOutcomes = cmp.Or(c.MaxOutcomes, 2000)
	c.RetryRequests = cmp.Or(c.RetryRequests, 20)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 7*24*time.Hour)
	return c
}

// Validate returns all invalid fields, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	if !(c.Alpha > 0 && c.Alpha < 0.5) {
		e.Add("Alpha", "must be above 0 and below 0.5, got %v", c.Alpha)
	}
	if !(c.Margin >= 0 && c.Margin < c.MinLift && c.MinLift < 1) {
		e.Add("Margin, MinLift", "want 0 <= first < second < 1, got %v and %v", c.Margin, c.MinLift)
	}
	if c.Share < 1 || c.Share > 99 {
		e.Add("Share", "must be 1 to 99, got %d", c.Share)
	}
	config.AtLeast(&e, "Slots", c.Slots, 1)
	config.AtLeast(&e, "MaxOutcomes", c.MaxOutcomes, 1)
	config.AtLeast(&e, "RetryRequests", c.RetryRequests, 1)
	if c.IdleTimeout < 0 {
		e.Add("IdleTimeout", "must be positive, got %s", c.IdleTimeout)
	}
	return e.Join()
}

// ShownToAll is the share of an experiment after a person's decision on the bullet: to show it while the gate is on, or to
// retire it. The gate does not change such a bullet.
const ShownToAll = 100

// Verdict is the result of an experiment.
type Verdict int

// The verdicts.
const (
	Undecided Verdict = iota
	Promote           // the lift is above the margin
	Harm              // the lift is below 0
	Futile            // the lift is below MinLift, or MaxOutcomes outcomes gave no result
)

// Evaluate returns the verdict on a case and the reason as a sentence. It may be called after every outcome.
func (c Config) Evaluate(k *playbook.Experiment) (Verdict, string) {
	c = c.WithDefaults()
	n := k.Shown.Count() + k.Withheld.Count()
	if n == 0 || k.Share < 1 || k.Share > 99 {
		return Undecided, ""
	}
	threshold := math.Log(1 / c.Alpha)
	v := Undecided
	switch {
	case wealth(k, c.Margin, above) >= threshold:
		v = Promote
	case wealth(k, 0, below) >= threshold:
		v = Harm
	case n >= c.MaxOutcomes || wealth(k, c.MinLift, below) >= threshold:
		v = Futile
	default:
		return Undecided, ""
	}
	l := c.Lift(k)
	if l.Low == -1 && l.High == 1 {
		return Undecided, "" // a random assignment does not produce such counts
	}
	verb := map[Verdict]string{Promote: "helps", Harm: "is harmful", Futile: "does not help enough"}[v]
	return v, fmt.Sprintf("it %s: %s, mean score %.2f in %d tasks shown and %.2f in %d withheld", verb, l, k.Shown.Mean(), l.Shown, k.Withheld.Mean(), l.Withheld)
}

// MayRetry reports whether a retired bullet with this case may be tried again. It may, unless the experiment showed harm.
func (c Config) MayRetry(k *playbook.Experiment) bool {
	v, _ := c.Evaluate(k)
	return v != Harm
}

// ShouldRetry reports whether a retired bullet has had enough new requests to be tried again.
func (c Config) ShouldRetry(k *playbook.Experiment) bool {
	c = c.WithDefaults()
	return k.Confirmations >= c.RetryRequests*max(1, k.Number)
}

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

// Lift returns the estimated lift of a case and its confidence limits. Without outcomes the limits are -1 and 1.
func (c Config) Lift(k *playbook.Experiment) Lift {
	c = c.WithDefaults()
	l := Lift{Low: -1, High: 1, Shown: k.Shown.Count(), Withheld: k.Withheld.Count()}
	if l.Shown > 0 && l.Withheld > 0 {
		l.Estimate = k.Shown.Mean() - k.Withheld.Mean()
	}
	if l.Shown+l.Withheld == 0 || k.Share < 1 || k.Share > 99 {
		return l
	}
	// The wealth against "at most d" decreases with d, the wealth against "at least d" increases.
	threshold := math.Log(1 / c.Alpha)
	l.Low = largestRefuted(func(d float64) bool { return wealthAt(k, d, above) >= threshold })
	l.High = -largestRefuted(func(d float64) bool { return wealthAt(k, -d, below) >= threshold })
	if l.Low > l.High { // a random assignment does not produce such counts: nearly all tasks are in one arm
		l.Low, l.High = -1, 1
	}
	return l
}

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

// The constants m, and the stakes as fractions of the largest stake that keeps every factor non-negative. Each pair is one
// bet; the wealth is the mean over all of them.
var (
	centres = [...]float64{0.05, 0.25, 0.5, 0.75, 0.95}
	stakes  = [...]float64{0.8, 0.4, 0.2, 0.1, 0.05}
)

const mixed = len(centres) * len(stakes)

// gains are the logarithms of the factors by which one outcome multiplies the wealth of each bet, by arm and score.
type gains [2][playbook.MaxScore + 1][mixed]float64

// bet holds the parameters of gains.
type bet struct {
	share int
	d     float64
	side  int
}

// known caches the gains for the hypotheses of Evaluate, which are used for every decision.
var known sync.Map // bet → *gains

// wealth returns the logarithm of the mean wealth of the bets against a hypothesis. It caches the gains.
func wealth(k *playbook.Experiment, d float64, side int) float64 {
	b := bet{k.Share, d, side}
	g, ok := known.Load(b)
	if !ok {
		g, _ = known.LoadOrStore(b, b.gains())
	}
	return g.(*gains).of(k)
}

// wealthAt returns the same as wealth without using the cache, for hypotheses that are tested once.
func wealthAt(k *playbook.Experiment, d float64, side int) float64 {
	return bet{k.Share, d, side}.gains().of(k)
}

func (b bet) gains() *gains {
	p := float64(b.share) / 100
	g := new(gains)
	for i, m := range centres {
		least, most := -max(m/p, (1-m)/(1-p)), max((1-m)/p, m/(1-p)) // of z
		for j, part := range stakes {
			at := i*len(stakes) + j
			for score := range playbook.MaxScore + 1 {
				y := float64(score)/playbook.MaxScore - m
				for arm, z := range [2]float64{y / p, -y / (1 - p)} {
					// With the largest stake, the worst outcome reduces the wealth to 0.
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
func (g *gains) of(k *playbook.Experiment) float64 {
	var logs [mixed]float64
	for arm, counts := range [2]*playbook.Scores{&k.Shown, &k.Withheld} {
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

// Drift is a decrease of the mean score by driftZ standard errors. The comparison needs minBefore earlier outcomes and
// minRecent outcomes in the newest blocks. The test is repeated often, but a false alarm costs little: it only starts a
// new experiment.
const (
	minBefore = 50
	minRecent = 40
	driftZ    = 3.2
)

// HasDrifted reports whether the recent outcomes of tasks that were shown a bullet are clearly worse than the earlier ones. It
// also returns the reason as a sentence.
func HasDrifted(k *playbook.Experiment) (bool, string) {
	var all playbook.Scores
	for score := range all {
		all[score] = k.Shown[score] + k.Open[score]
	}
	n, sum := all.Count(), all.Sum()
	squares := 0
	for score, c := range all {
		squares += score * score * c
	}
	if n == 0 {
		return false, ""
	}
	mean := float64(sum) / float64(n)
	variance := max(float64(squares)/float64(n)-mean*mean, 0.01)
	recent := playbook.Block{}
	for i := len(k.Recent) - 1; i >= 0; i-- {
		recent.N += k.Recent[i].N
		recent.Sum += k.Recent[i].Sum
		before := n - recent.N
		if recent.N < minRecent {
			continue
		}
		if before < minBefore {
			break
		}
		was, is := float64(sum-recent.Sum)/float64(before), float64(recent.Sum)/float64(recent.N)
		if z := (was - is) / math.Sqrt(variance*(1/float64(recent.N)+1/float64(before))); z >= driftZ {
			return true, fmt.Sprintf("outcomes have become worse: mean score %.2f in the last %d tasks that were shown it, %.2f in the %d before",
				is/playbook.MaxScore, recent.N, was/playbook.MaxScore, before)
		}
	}
	return false, ""
}
