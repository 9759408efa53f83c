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

// Assess returns the decision on a bullet that is shown or on probation. typical is the mean score of other tasks. The first rule that
// applies decides.
func (c Config) Assess(b *playbook.Bullet, typical playbook.Typical) Assessment {
	c = c.WithDefaults()
	e := b.CurrentExperiment()
	if e.Standing == playbook.StandingKept || e.Outcomes() == 0 {
		return Assessment{}
	}
	certain := 1 / c.Alpha // the evidence that refutes a hypothesis
	factor := failing(&e, typical)
	harm := math.Exp(harmGains.logWealth(&e))
	benefit := math.Exp(benefitGains.logWealth(&e))
	isNew := e.Standing == playbook.StandingNew
	isSuspect := e.Standing == playbook.StandingSuspect
	isTrusted := e.Standing == playbook.StandingTrusted
	isProven := e.Standing == playbook.StandingProven
	switch {
	case harm >= certain:
		return Assessment{Standing: playbook.StandingSuspect, Retire: true, Code: playbook.ReasonHarms, Reason: "it harms: " + c.experimentText(&e)}
	case e.Standing.Established() && drifted(&e, c.Alpha):
		return Assessment{
			Standing: playbook.StandingSuspect, Restart: true, Code: playbook.ReasonDrift,
			Reason: fmt.Sprintf("outcomes have become worse: mean score %.2f in %d tasks, but the newest are %s", e.Cited.Mean(), e.Cited.Count(), e.Recent),
		}
	case factor >= certain && (isNew || isSuspect):
		return Assessment{Standing: playbook.StandingSuspect, Retire: true, Code: playbook.ReasonFails, Reason: "tasks that cite it fail: " + citedText(&e, typical)}
	case benefit >= certain && !isProven:
		return Assessment{Standing: playbook.StandingProven, Code: playbook.ReasonHelps, Reason: "it helps: " + c.experimentText(&e)}
	case harm >= suspicion && !isSuspect:
		return Assessment{Standing: playbook.StandingSuspect, Code: playbook.ReasonSuspect, Reason: "it seems to harm: " + c.experimentText(&e)}
	case !isTrusted && !isProven && lead(&e, typical) >= trustedLead && harm <= noEvidence:
		return Assessment{Standing: playbook.StandingTrusted, Code: playbook.ReasonTrusted, Reason: "tasks that cite it succeed: " + citedText(&e, typical)}
	case isTrusted && lead(&e, typical) <= 0:
		return Assessment{Standing: playbook.StandingNew, Code: playbook.ReasonSuspect, Reason: "no longer trusted: " + citedText(&e, typical)}
	case (isNew || isSuspect) && e.Confirmations < confirmationsAgainst(factor):
		return Assessment{Standing: playbook.StandingNew, Suspend: true, Code: playbook.ReasonSuspended, Reason: "tasks that cite it seem to fail: " + citedText(&e, typical)}
	case e.Standing == "" && factor >= suspicion: // a person or an import added the bullet, so it is not suspended
		return Assessment{Standing: playbook.StandingSuspect, Code: playbook.ReasonSuspect, Reason: "tasks that cite it seem to fail: " + citedText(&e, typical)}
	case b.Status == playbook.Probation && e.Shown.Count()+e.Withheld.Count() >= c.MaxOutcomes:
		return Assessment{Standing: playbook.StandingSuspect, Retire: true, Code: playbook.ReasonNoBenefit, Reason: "no result: " + c.experimentText(&e)}
	}
	return Assessment{}
}

// roundingError is added to results of floating-point arithmetic that are compared with an exact limit.
const roundingError = 1e-9

// noEvidence is the largest e-value that is no evidence against a hypothesis.
const noEvidence = 1 + roundingError

// confirmationsAgainst returns the number of confirmations that outweigh the Bayes factor against a bullet. Each confirmation divides the
// factor by suspicion, until it is below suspicion.
func confirmationsAgainst(factor float64) int {
	if factor < suspicion {
		return 0
	}
	return int(math.Log(factor)/math.Log(suspicion) + roundingError)
}

// lead returns the successes minus the failures of the tasks that cited a bullet. A task with the score 0.7 is 0.7 successes and 0.3
// failures. Successes that are probably false do not count, because a false success credits all cited bullets. Failures need no such
// correction: they count only for the bullets that a reflection blames.
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

// Limits of the weight of the typical success rate, in outcomes. The weight is the smallest of the outcomes behind the rate, the outcomes of the
// bullet that is compared with it, and maxPrior, but at least minPrior. A larger minimum would let three failures in a row suspend 4 % of the bullets that
// help. The maximum describes how much the tasks of bullets differ: with 20, the standard deviation about a typical rate of one half is
// 0.11.
const (
	minPrior = 4
	maxPrior = 20
)

// failing returns the Bayes factor (Kass and Raftery, "Bayes factors", 1995) of the first of two hypotheses against the second:
//
//  1. Tasks that cite a bullet have another success rate than tasks that it was withheld from.
//  2. Both have the same rate.
//
// It returns 0 if the tasks that cite the bullet do not succeed less often. Each unknown rate has a beta distribution before any outcome: the
// rate of the cited tasks a uniform one, the rate of the withheld tasks and the rate of both one around the typical rate.
//
// If the second hypothesis is true and the rate has this distribution, the factor exceeds 1/α with a probability of at most α, at any time. If the
// tasks of a bullet are much harder than typical ones, the probability is higher until the bullet was withheld from enough tasks.
func failing(e *playbook.Experiment, typical playbook.Typical) float64 {
	cited, withheld := float64(e.Cited.Count()), float64(e.Withheld.Count())
	citedGood, withheldGood := float64(e.Cited.Sum())/playbook.MaxScore, float64(e.Withheld.Sum())/playbook.MaxScore
	citedBad, withheldBad := cited-citedGood, withheld-withheldGood

	rate := min(max(typical.Rate, 0.02), 0.98) // neither 0 nor 1, because each outcome stays possible
	weight := max(minPrior, min(typical.Outcomes, cited, maxPrior))
	priorGood, priorBad := weight*rate, weight*(1-rate)
	citedRate, withheldRate := (citedGood+1)/(cited+2), (withheldGood+priorGood)/(withheld+weight) // means after the outcomes
	if cited == 0 || citedRate >= withheldRate {
		return 0
	}
	different := logBeta(1+citedGood, 1+citedBad) + logBeta(priorGood+withheldGood, priorBad+withheldBad)
	equal := logBeta(priorGood+citedGood+withheldGood, priorBad+citedBad+withheldBad)
	return math.Exp(different - equal)
}

// logBeta returns the logarithm of the beta function.
func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// drifted reports whether the newest tasks that cited a bullet fail more often than its earlier tasks. It is the cumulative sum
// test of Page ("Continuous inspection schemes", 1954) for a change from the earlier failure rate to at least one half. The earlier tasks
// are all except the newest failures in a row. Without a change, n earlier outcomes give a false alarm with a probability of about
// n·exp(-threshold), so the threshold is log((n+1)/alpha); the 1 is for a bullet without earlier outcomes.
func drifted(e *playbook.Experiment, alpha float64) bool {
	newest := e.FailuresInARow()
	if newest == 0 {
		return false
	}
	n := float64(max(0, e.Cited.Count()-newest))
	earlierFailures := max(0, failures(e)-float64(newest))
	rate := (earlierFailures + 1) / (n + 2)
	if rate >= 0.5 { // a change to one half would be no change for the worse
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
