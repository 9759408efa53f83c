package gate

import (
	"fmt"
	"math"

	"debrief/playbook"
)

// Assessment is the decision on the record of a bullet. The zero value changes nothing.
type Assessment struct {
	Standing playbook.Standing // new standing; empty leaves it
	Retire   bool
	// Suspend reports that the bullet goes back to the waiting candidates until other executions request its text.
	Suspend bool
	// Restart reports that the outcomes have changed, so that a new experiment starts.
	Restart bool
	Code    playbook.Reason
	Reason  string // for people
}

// trustedLead is the number of successes beyond failures from which on a bullet is trusted.
const trustedLead = 3

// suspicion is the Bayes factor against a bullet, see failing, from which on it is suspect, and a new bullet is suspended. With 4, at most 2 %
// of the bullets that help are suspended by chance (TestErrorRatesWithCheckAfterEveryOutcome).
const suspicion = 4

// Assess returns the decision on a bullet that is shown or on probation, by the first rule below that applies. typical is the mean score
// of other tasks.
func (c Config) Assess(b *playbook.Bullet, typical playbook.Typical) Assessment {
	c = c.WithDefaults()
	e := b.CurrentExperiment()
	if e.Standing == playbook.StandingKept || e.Outcomes() == 0 {
		return Assessment{}
	}
	factor := failing(&e, typical)
	harm := math.Exp(wealth(&e, below))
	benefit := math.Exp(wealth(&e, above))
	isTrusted := e.Standing == playbook.StandingProven || e.Standing == playbook.StandingTrusted
	inUse := b.Shown() || b.Status == playbook.Probation
	switch {
	case harm >= 1/c.Alpha:
		return Assessment{Standing: playbook.StandingSuspect, Retire: true, Code: playbook.ReasonHarms, Reason: "it harms: " + c.experimentText(&e)}
	case e.Standing.Established() && drifted(&e, c.Alpha):
		return Assessment{
			Standing: playbook.StandingSuspect, Restart: true, Code: playbook.ReasonDrift,
			Reason: fmt.Sprintf("outcomes have become worse: mean score %.2f in %d tasks, but the newest are %s", e.Cited.Mean(), e.Cited.Count(), e.Recent),
		}
	case factor >= 1/c.Alpha && !e.Standing.Established():
		return Assessment{Standing: playbook.StandingSuspect, Retire: true, Code: playbook.ReasonFails, Reason: "tasks that cite it fail: " + citedText(&e, typical)}
	case e.Standing != playbook.StandingProven && benefit >= 1/c.Alpha:
		return Assessment{Standing: playbook.StandingProven, Code: playbook.ReasonHelps, Reason: "it helps: " + c.experimentText(&e)}
	case e.Standing != playbook.StandingSuspect && harm >= suspicion:
		return Assessment{Standing: playbook.StandingSuspect, Code: playbook.ReasonSuspect, Reason: "it seems to harm: " + c.experimentText(&e)}
	case !isTrusted && lead(&e, typical) >= trustedLead && harm <= 1+tiny:
		return Assessment{Standing: playbook.StandingTrusted, Code: playbook.ReasonTrusted, Reason: "tasks that cite it succeed: " + citedText(&e, typical)}
	case e.Standing == playbook.StandingTrusted && lead(&e, typical) <= 0:
		return Assessment{Standing: playbook.StandingNew, Code: playbook.ReasonSuspect, Reason: "no longer trusted: " + citedText(&e, typical)}
	case inUse && !e.Standing.Established() && e.Confirmations < confirmationsAgainst(factor):
		return Assessment{Standing: playbook.StandingNew, Suspend: true, Code: playbook.ReasonSuspended, Reason: "tasks that cite it seem to fail: " + citedText(&e, typical)}
	case e.Standing == "" && factor >= suspicion:
		return Assessment{Standing: playbook.StandingSuspect, Code: playbook.ReasonSuspect, Reason: "tasks that cite it seem to fail: " + citedText(&e, typical)}
	case b.Status == playbook.Probation && e.Shown.Count()+e.Withheld.Count() >= c.MaxOutcomes:
		return Assessment{Standing: playbook.StandingSuspect, Retire: true, Code: playbook.ReasonNoBenefit, Reason: "no result: " + c.experimentText(&e)}
	}
	return Assessment{}
}

// confirmationsAgainst returns the number of confirmations that outweigh the evidence against a bullet: each divides its Bayes
// factor by suspicion, and the rest must be below suspicion.
func confirmationsAgainst(factor float64) int {
	if factor < suspicion {
		return 0
	}
	return int(math.Log(factor)/math.Log(suspicion) + tiny)
}

// lead returns the successes minus the failures of the tasks that cited a bullet. A partial success counts in part for both. The share of
// successes that is probably false counts for none, because a false success credits all cited bullets. Failures need no such correction: they
// count only for the bullets that a reflection blames.
func lead(e *playbook.Experiment, typical playbook.Typical) float64 {
	return successes(e, typical) - failures(e)
}

// successes returns the successes of the tasks that cited a bullet, without those that are probably false.
func successes(e *playbook.Experiment, typical playbook.Typical) float64 {
	return float64(e.Cited.Sum()) / playbook.MaxScore * (1 - typical.FalseSuccesses)
}

// failures returns the failures of the tasks that cited a bullet.
func failures(e *playbook.Experiment) float64 {
	return float64(e.Cited.Count()) - float64(e.Cited.Sum())/playbook.MaxScore
}

// Limits of the weight of the typical success rate, in outcomes. The weight is the number of outcomes behind the rate, but not more than
// the length of the record that is compared with it. A larger minimum would let three failures in a row suspend 4 % of the bullets that
// help. The maximum describes how much the tasks of bullets differ: with 20, the standard deviation about a typical rate of one half is
// 0.11.
const (
	minPrior = 4
	maxPrior = 20
)

// failing returns the Bayes factor of two hypotheses: tasks that cite a bullet succeed less often than tasks that it was withheld from,
// against both succeed equally often. It is 0 if the tasks that cite the bullet succeed more often.
//
// The success rates have beta distributions: uniform for the cited tasks, and with the weight of the typical rate for
// the withheld ones and for the common rate. The factor is the ratio of the marginal likelihoods (Kass and Raftery, "Bayes
// factors", 1995). If the rates are equal and drawn from these distributions, it exceeds 1/α with a probability of at most α, at any
// time. If the tasks of a bullet are much harder than typical ones, the probability is higher until enough outcomes are withheld.
func failing(e *playbook.Experiment, typical playbook.Typical) float64 {
	rate := min(max(typical.Rate, 0.02), 0.98)
	good, n := float64(e.Cited.Sum())/playbook.MaxScore, float64(e.Cited.Count())
	weight := max(minPrior, min(typical.Outcomes, n, maxPrior))
	without, m := float64(e.Withheld.Sum())/playbook.MaxScore, float64(e.Withheld.Count())
	a, b := weight*rate, weight*(1-rate)
	if n == 0 || (good+1)/(n+2) >= (without+a)/(m+weight) {
		return 0
	}
	bad, failures := n-good, m-without
	apart := logBeta(1+good, 1+bad) + logBeta(a+without, b+failures) - logBeta(a, b)
	same := logBeta(a+good+without, b+bad+failures) - logBeta(a, b)
	return math.Exp(apart - same)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// drifted reports whether the newest tasks that cited a bullet fail more often than its record explains. It is the cumulative sum
// test of Page ("Continuous inspection schemes", 1954) for a change from the failure rate of the record to at least one half.
// The newest failures in a row are not part of the record. A stationary record of n outcomes gives a false alarm with a
// probability of about n·exp(-threshold), so the threshold is log(n/alpha).
func drifted(e *playbook.Experiment, alpha float64) bool {
	run := e.FailuresInARow()
	if run == 0 {
		return false
	}
	n := float64(max(0, e.Cited.Count()-run))
	failed := max(0, float64(e.Cited.Count())-float64(e.Cited.Sum())/playbook.MaxScore-float64(run))
	rate := (failed + 1) / (n + 2)
	if rate >= 0.5 {
		return false
	}
	sum := 0.0
	for _, mark := range e.Recent {
		if mark == playbook.RecentFailure {
			sum += math.Log(0.5 / rate)
		} else {
			sum += math.Log(0.5 / (1 - rate))
		}
		sum = max(sum, 0)
	}
	return sum >= math.Log((n+1)/alpha)
}

// experimentText describes the outcomes of the random arms.
func (c Config) experimentText(e *playbook.Experiment) string {
	l := c.Lift(e)
	return fmt.Sprintf("%s, mean score %.2f in %d tasks shown and %.2f in %d withheld", l, e.Shown.Mean(), l.Shown, e.Withheld.Mean(), l.Withheld)
}

// citedText describes the outcomes of the tasks that cited a bullet.
func citedText(e *playbook.Experiment, typical playbook.Typical) string {
	text := fmt.Sprintf("mean score %.2f in %d tasks", e.Cited.Mean(), e.Cited.Count())
	if n := e.Withheld.Count(); n > 0 {
		return text + fmt.Sprintf(", %.2f in %d tasks without it", e.Withheld.Mean(), n)
	}
	return text + fmt.Sprintf(", %.2f is typical", typical.Rate)
}
