// Package gate tells advice that helps from advice that does not, by what chance decided about it. A bullet on probation
// is shown to a share of the tasks that it bears on, and withheld from the others; nothing but chance tells the two
// apart, so the difference between their outcomes is what the bullet does. Plain counters cannot say that: they also
// count how hard the tasks are.
//
// # The bound
//
// Each outcome y, a score from 0 to 1, becomes
//
//	z = (y - m) · (1/p if shown, -1/(1-p) if withheld)
//
// with p the share that is shown and m any constant. Chance decides the sign, so the mean of z is the lift, whatever the
// task, the other bullets and the model were: the inverse probability weighting of Horvitz and Thompson (1952). It holds
// one outcome at a time, given all before it, and needs no outcome to be independent of another.
//
// Against the claim that the lift is at most d, a gambler bets: the product of 1 + b·(z - d), with stakes b small enough
// that it stays positive, is a non-negative supermartingale if the claim is true. It reaches 1/α with a probability of at
// most α, however often one looks (Ville 1939): so one may look after every outcome and stop. The mean of several such
// products is one too; here over five constants m and five stakes, because the best of them is not known beforehand
// (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024). The bets are fixed, so the
// product depends on how many outcomes of each kind there were and not on their order: a Case needs no more than counts,
// and outcomes can be folded in any order and taken back.
//
// The package is pure. What becomes of a verdict is the Curator's.
package gate

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"debrief/playbook"
)

// Config of the gate; zero fields are defaults.
type Config struct {
	Alpha  float64 `name:"gate-alpha" help:"Chance that the gate takes, on each bullet, of promoting one that does not help." default:"0.05" group:"Gate"`
	Margin float64 `name:"gate-margin" help:"Lift of the mean score, from 0 to 1, that a bullet must surely exceed to be promoted." default:"0" group:"Gate"`
	Worth  float64 `name:"gate-worth" help:"Lift under which a bullet is not worth its place: surely under it, it retires." default:"0.05" group:"Gate"`
	Share  int     `name:"gate-share" help:"Percent of the tasks that are shown a bullet on probation." default:"50" group:"Gate"`
	Slots  int     `name:"gate-slots" help:"Most bullets of a book on probation at once." default:"8" group:"Gate"`
	Most   int     `name:"gate-most" help:"Outcomes after which a bullet that has shown no lift retires." default:"2000" group:"Gate"`
	// Return is for the few that help and had bad luck: a bound that is right 95 times in 100 is wrong in the others.
	Return int `name:"gate-return" help:"Executions that must ask anew for a bullet that retired without doing harm before it is tried again, times the tries that it had." default:"20" group:"Gate"`
	// Patience is for advice that nothing is ever about: it would hold its place for ever.
	Patience time.Duration `name:"gate-patience" help:"After so long without a task that it is about, a bullet on probation retires if others wait." default:"168h" group:"Gate"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	if c.Alpha == 0 {
		c.Alpha = 0.05
	}
	if c.Worth == 0 {
		c.Worth = 0.05
	}
	if c.Share == 0 {
		c.Share = 50
	}
	if c.Slots == 0 {
		c.Slots = 8
	}
	if c.Most == 0 {
		c.Most = 2000
	}
	if c.Return == 0 {
		c.Return = 20
	}
	if c.Patience == 0 {
		c.Patience = 7 * 24 * time.Hour
	}
	return c
}

// Validate names the flag of what cannot be.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	if !(c.Alpha > 0 && c.Alpha < 0.5) {
		errs = append(errs, fmt.Errorf("--gate-alpha: must be above 0 and under 0.5, got %v", c.Alpha))
	}
	if !(c.Margin >= 0 && c.Margin < c.Worth && c.Worth < 1) {
		errs = append(errs, fmt.Errorf("--gate-margin, --gate-worth: want 0 <= margin < worth < 1, got %v and %v", c.Margin, c.Worth))
	}
	if c.Share < 1 || c.Share > 99 {
		errs = append(errs, fmt.Errorf("--gate-share: must be 1 to 99, got %d", c.Share))
	}
	if c.Slots < 1 {
		errs = append(errs, fmt.Errorf("--gate-slots: must be at least 1, got %d", c.Slots))
	}
	if c.Return < 0 {
		errs = append(errs, fmt.Errorf("--gate-return: must be at least 1, got %d", c.Return))
	}
	if c.Patience < 0 {
		errs = append(errs, fmt.Errorf("--gate-patience: must be positive, got %s", c.Patience))
	}
	if c.Most < 1 {
		errs = append(errs, fmt.Errorf("--gate-most: must be at least 1, got %d", c.Most))
	}
	return errors.Join(errs...)
}

// Verdict is what the evidence on a bullet amounts to.
type Verdict int

// The verdicts.
const (
	Undecided Verdict = iota
	Promote           // it helps, by more than the margin
	Harm              // it hurts
	Futile            // what it may help is not worth its place, or did not show in time
)

// Judge is the verdict on a case, with the reason in a sentence. It may be asked after every outcome.
func (c Config) Judge(k *playbook.Case) (Verdict, string) {
	c = c.WithDefaults()
	n := k.Shown.N() + k.Withheld.N()
	if n == 0 || k.Share < 1 || k.Share > 99 {
		return Undecided, ""
	}
	sure := math.Log(1 / c.Alpha)
	v := Undecided
	switch {
	case wealth(k, c.Margin, above) >= sure:
		v = Promote
	case wealth(k, 0, below) >= sure:
		v = Harm
	case n >= c.Most || wealth(k, c.Worth, below) >= sure:
		v = Futile
	default:
		return Undecided, ""
	}
	l := c.Lift(k)
	if l.Low == -1 && l.High == 1 {
		return Undecided, "" // no chance ever made such counts
	}
	verb := map[Verdict]string{Promote: "helps", Harm: "hurts", Futile: "does not help enough"}[v]
	return v, fmt.Sprintf("it %s: %s, mean score %.2f in %d tasks shown and %.2f in %d withheld", verb, l, k.Shown.Mean(), l.Shown, k.Withheld.Mean(), l.Withheld)
}

// MayReturn reports whether a bullet with this case that has retired may be tried again: chance did not find that it
// hurts, and may not have looked at it at all.
func (c Config) MayReturn(k *playbook.Case) bool {
	v, _ := c.Judge(k)
	return v != Harm
}

// Returns reports whether enough have asked for it anew.
func (c Config) Returns(k *playbook.Case) bool {
	c = c.WithDefaults()
	return k.Seconded >= c.Return*max(1, k.Number)
}

// Lift is how much better tasks come out with a bullet than without it, in points of the mean score from -1 to 1.
type Lift struct {
	Estimate float64 `json:"estimate"` // difference of the two means; 0 while one of them has no outcome
	// Low and High hold the lift between them, each with a chance of error of the gate's alpha, however often one looks.
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Shown    int     `json:"shown"` // outcomes by arm
	Withheld int     `json:"withheld"`
}

func (l Lift) String() string {
	return fmt.Sprintf("lift %+.0f points (%+.0f to %+.0f)", 100*l.Estimate, 100*l.Low, 100*l.High)
}

// Lift is the lift that a case shows.
func (c Config) Lift(k *playbook.Case) Lift {
	c = c.WithDefaults()
	l := Lift{Low: -1, High: 1, Shown: k.Shown.N(), Withheld: k.Withheld.N()}
	if l.Shown > 0 && l.Withheld > 0 {
		l.Estimate = k.Shown.Mean() - k.Withheld.Mean()
	}
	if l.Shown+l.Withheld == 0 || k.Share < 1 || k.Share > 99 {
		return l
	}
	// The wealth against "at most d" falls with d, that against "at least d" rises with it.
	sure := math.Log(1 / c.Alpha)
	l.Low = cross(func(d float64) bool { return wealthAt(k, d, above) >= sure })
	l.High = -cross(func(d float64) bool { return wealthAt(k, -d, below) >= sure })
	if l.Low > l.High { // counts that no chance made: nearly all tasks in one arm
		l.Low, l.High = -1, 1
	}
	return l
}

// cross is the largest d from -1 to 1, to a thousandth, up to which a claim is refuted; -1 if it never is.
func cross(refuted func(d float64) bool) float64 {
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

// The claims that are bet against.
const (
	above = iota // the lift is at most d; wealth says that it is above
	below        // the lift is at least d
)

// What is mixed: constants to measure outcomes from, and stakes as parts of the largest that cannot ruin.
var (
	centres = [...]float64{0.05, 0.25, 0.5, 0.75, 0.95}
	stakes  = [...]float64{0.8, 0.4, 0.2, 0.1, 0.05}
)

const mixed = len(centres) * len(stakes)

// gains are what one outcome multiplies each wealth by, as logarithms: by arm and score.
type gains [2][playbook.MaxScore + 1][mixed]float64

// bet is what gains depend on.
type bet struct {
	share int
	d     float64
	side  int
}

// known are the gains of claims that are looked at again and again: those of the configuration.
var known sync.Map // bet → *gains

// wealth is the logarithm of what betting against a claim has come to.
func wealth(k *playbook.Case, d float64, side int) float64 {
	b := bet{k.Share, d, side}
	g, ok := known.Load(b)
	if !ok {
		g, _ = known.LoadOrStore(b, b.gains())
	}
	return g.(*gains).of(k)
}

// wealthAt is wealth for a claim that is looked at once.
func wealthAt(k *playbook.Case, d float64, side int) float64 {
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
					// The largest stake leaves nothing after the worst outcome.
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

// tiny keeps stakes finite where no outcome can lose.
const tiny = 1e-9

// of is the logarithm of the mean of the wealths.
func (g *gains) of(k *playbook.Case) float64 {
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
		if l > best-40 { // e^-40 adds nothing
			sum += math.Exp(l - best)
		}
	}
	return best + math.Log(sum/float64(mixed))
}

// Drift is looked for with at least so many outcomes before and in the newest blocks, and found at so many standard
// errors. It is looked for again and again, and a false alarm costs little: it opens the case anew, and no more.
const (
	minBefore = 50
	minRecent = 40
	driftZ    = 3.2
)

// Drifted reports whether tasks that are shown a bullet have lately come out clearly worse than they did before, with the
// reason in a sentence.
func Drifted(k *playbook.Case) (bool, string) {
	var all playbook.Scores
	for score := range all {
		all[score] = k.Shown[score] + k.Open[score]
	}
	n, sum := all.N(), all.Sum()
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
			return true, fmt.Sprintf("tasks that were shown it have lately come out worse: mean score %.2f in the last %d, %.2f in the %d before",
				is/playbook.MaxScore, recent.N, was/playbook.MaxScore, before)
		}
	}
	return false, ""
}
