package playbook

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// JudgePrefix begins the name of a judge in the field By of an outcome, and in Evidence.Judge. The model and the version of the rubric follow.
const JudgePrefix = "judge/"

// Judge is the measured error of a judge, which is a model that rates answers. The labels of people count as right. A score of at least a half is
// a success, for the judge and for people.
type Judge struct {
	Name           string `msgpack:"n" json:"name"`            // with its model and the version of its rubric
	Right          int    `msgpack:"r" json:"right"`           // answers that people call a success
	Wrong          int    `msgpack:"w" json:"wrong"`           // answers that people call a failure
	FalseFailures  int    `msgpack:"f" json:"false_failures"`  // of Right: the judge called them a failure
	FalseSuccesses int    `msgpack:"s" json:"false_successes"` // of Wrong: the judge called them a success
}

// MinLabels is the number of labels from which on a judge counts as calibrated.
const MinLabels = 50

// Validate returns an error for counts that labels cannot give. Nil is valid.
func (j *Judge) Validate() error {
	switch {
	case j == nil:
		return nil
	case !strings.HasPrefix(j.Name, JudgePrefix) || len(j.Name) > MaxEvidenceName:
		return fmt.Errorf("judge.name: must begin with %s and have at most %d bytes, got %.80q", JudgePrefix, MaxEvidenceName, j.Name)
	case j.FalseFailures < 0 || j.FalseFailures > j.Right || j.FalseSuccesses < 0 || j.FalseSuccesses > j.Wrong:
		return errors.New("judge: false_failures must be from 0 to right, and false_successes from 0 to wrong")
	case j.Right+j.Wrong < MinLabels || j.Right == 0 || j.Wrong == 0:
		return fmt.Errorf("judge: want at least %d labels of both kinds, got %d right and %d wrong", MinLabels, j.Right, j.Wrong)
	}
	if failures, successes := j.Errors(); failures.High+successes.High >= 1 {
		return fmt.Errorf("judge: its error may be %.0f %% on right and %.0f %% on wrong answers, so its verdicts may say nothing: label more answers, or change the rubric or the model",
			100*failures.High, 100*successes.High)
	}
	return nil
}

// Errors returns the exact 95 % intervals of the shares of false failures and of false successes, see Exact.
func (j *Judge) Errors() (falseFailures, falseSuccesses Interval) {
	return Exact(j.FalseFailures, j.Right), Exact(j.FalseSuccesses, j.Wrong)
}

// Noise has the probabilities that a verdict on a task is false, each from 0 to 1.
type Noise struct {
	FalseFailure float64 // of a success
	FalseSuccess float64 // of a failure
}

// Verdicts describes the newest outcomes of all tasks. Older outcomes have less weight: it has exponential averages of length maxVerdicts.
type Verdicts struct {
	Count int     `msgpack:"n,omitempty"` // at most maxVerdicts
	Rate  float64 `msgpack:"s,omitempty"` // mean score
	Share float64 `msgpack:"h,omitempty"` // share of outcomes from the measured judge
}

const maxVerdicts = 100

// add adds an outcome. judge is the name of the measured judge. An outcome with another name of a judge counts as one without a judge.
func (v *Verdicts) add(e *Evidence, judge string) {
	v.Count = min(v.Count+1, maxVerdicts)
	n := float64(v.Count)
	judged := 0.0
	if judge != "" && e.Judge == judge {
		judged = 1
	}
	v.Rate += (e.Score - v.Rate) / n
	v.Share += (judged - v.Share) / n
}

// Interval is a confidence interval of a share.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Exact returns the exact 95 % confidence interval for a share, of which k successes in n trials were observed (Clopper and Pearson, "The use of
// confidence or fiducial limits", Biometrika 26, 1934). With a share below the interval, k or more successes have a probability below 2.5 %; with
// a share above it, k or fewer. For n = 0 the interval is 0 to 1.
func Exact(k, n int) Interval {
	const tail = 0.025
	in := Interval{0, 1}
	if k > 0 {
		in.Low = bisect(func(p float64) bool { return 1-binomial(k-1, n, p) < tail })
	}
	if k < n {
		in.High = bisect(func(p float64) bool { return binomial(k, n, p) > tail })
	}
	return in
}

// bisect returns the largest p from 0 to 1 for which below is true. below must be true up to some p and false from there on.
func bisect(below func(p float64) bool) float64 {
	low, high := 0.0, 1.0
	for high-low > 1e-9 {
		if mid := (low + high) / 2; below(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// binomial returns the probability of at most k successes in n trials.
func binomial(k, n int, p float64) float64 {
	sum := 0.0
	all, _ := math.Lgamma(float64(n + 1))
	for i := range k + 1 {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(all - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// Noise returns the known error of the verdicts of a playbook: the error of the measured judge, multiplied by the share of the newest outcomes that
// are from this judge. It is zero if no error was measured, or if no such outcome is from the judge.
func (p *Playbook) Noise() Noise {
	v, j := p.tally.Verdicts, p.judge
	if j.Name == "" || v.Share == 0 {
		return Noise{}
	}
	return Noise{
		FalseFailure: v.Share * estimate(j.FalseFailures, j.Right),
		FalseSuccess: v.Share * estimate(j.FalseSuccesses, j.Wrong),
	}
}

// falseShares returns the shares of the newest failures and successes that are false, each from 0 to 1, by Bayes' rule. Both are 0 if the
// error of the verdicts is unknown.
func (p *Playbook) falseShares() (failures, successes float64) {
	n, v := p.Noise(), p.tally.Verdicts
	if n == (Noise{}) {
		return 0, 0
	}
	rate := n.trueRate(v.Rate)
	falseFailure, falseSuccess := rate*n.FalseFailure, (1-rate)*n.FalseSuccess // shares of all verdicts
	trueFailure, trueSuccess := (1-rate)*(1-n.FalseSuccess), rate*(1-n.FalseFailure)
	return falseFailure / (falseFailure + trueFailure), falseSuccess / (falseSuccess + trueSuccess)
}

// trueRate returns the true rate of successes behind a rate of verdicts, from 0 to 1.
func (n Noise) trueRate(rate float64) float64 {
	if n.FalseFailure+n.FalseSuccess >= 1 { // the verdicts say nothing
		return rate
	}
	return min(1, max(0, (rate-n.FalseSuccess)/(1-n.FalseFailure-n.FalseSuccess)))
}

// estimate returns the probability behind k of n by the rule of succession (Laplace). It is never 0.
func estimate(k, n int) float64 { return (float64(k) + 1) / (float64(n) + 2) }
