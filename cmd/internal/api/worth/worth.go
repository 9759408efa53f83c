// Package worth compares the sessions of a playbook with those of its control group: what the playbook is worth. No other package answers
// this question. It does no I/O.
//
// # Who is compared
//
// While a playbook has a control share, each session gets an arm at random (playbook.Share). The unit is the session: its value is the
// mean over its runs, so runs of one session may be as similar as they like. Only outcomes that were reported count, and not inferred
// ones. Evaluations, training, pinned tasks and copies have no arm. A session counts with its mean so far, and each session counts the
// same. The effect is that on the recorded outcomes: wrong outcomes make it smaller, and do not change its sign.
//
// # The interval
//
// The estimate is the difference of the two means, each session weighted with 1/π, the inverse of the probability of its arm, which its
// runs have recorded (Horvitz and Thompson 1952; normalized as by Hájek 1971). So the share may change at any time. The variance of the
// difference is
//
//	v = Σ σ²ₐ·w²ₐ / (Σ wₐ)²   over both arms a
//
// where σ²ₐ is the variance between the sessions of an arm. An imagined session that is one unit from the mean is added to it, and 20
// imagined ones with the variance of the other arm if that is larger: few sessions are often much more alike than further ones. w²ₐ
// counts at least the sessions that the probability lets expect, with the larger of both variances, because after a change of the share
// the sessions of the rare arm come late.
//
// The interval is the estimate plus and minus
//
//	√( 2·v·(v+τ²)/τ² · ( ln(1+τ²/v)/2 − ln α ) ),   α = 0.05, τ = 0.1
//
// the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas ("Time-uniform central limit theory and
// asymptotic confidence sequences", 2021, arXiv:2103.06476), with ρ = τ/σ. The interval holds at all looks together, so it may be read after
// each outcome. It begins with 20 sessions in each arm. The tests measure its coverage on simulated playbooks.
//
// Tokens, cost and time have heavy tails: one session can cost as much as all others. Therefore their values are the logarithms of the
// means of the sessions, and the effect is the change of a typical session (the ratio of geometric means). The sums that are shown beside
// it are plain ones.
package worth

import (
	"math"

	"debrief/playbook"
)

// Status is the answer to the question whether the playbook helps.
type Status string

// The answers.
const (
	Off        Status = "off"        // no control share, and no sessions with an arm
	Collecting Status = "collecting" // too few sessions for an interval
	Unclear    Status = "unclear"    // the interval contains zero
	Helps      Status = "helps"      // the interval is above zero
	Harms      Status = "harms"      // the interval is below zero
	NoEffect   Status = "no_effect"  // an effect of SmallEffect points in either direction is excluded
)

// SmallEffect is the smallest effect of interest, in points.
const SmallEffect = 2

// Report is the comparison of a playbook.
type Report struct {
	Book     playbook.Book  `json:"book"`
	Share    playbook.Share `json:"control" doc:"Control share now."`
	Status   Status         `json:"status" doc:"off, collecting, unclear, helps, harms or no_effect."`
	Summary  string         `json:"summary" doc:"The answer in a sentence."`
	Next     string         `json:"next" doc:"What to do now."`
	Command  string         `json:"command,omitempty" doc:"The command that does it. Nothing changes by itself."`
	Points   *Effect        `json:"points" doc:"Mean score from 0 to 100, with minus without the playbook; null before there are enough sessions."`
	Avoided  *Effect        `json:"failures_avoided" doc:"Failures avoided per 100 tasks."`
	Tokens   *Effect        `json:"tokens_percent" doc:"Change of the tokens per run of a typical session, in percent."`
	Cost     *Effect        `json:"cost_percent" doc:"The same for the cost."`
	Time     *Effect        `json:"time_percent" doc:"The same for the duration."`
	With     Arm            `json:"with" doc:"Sessions with the playbook."`
	Without  Arm            `json:"without" doc:"Sessions of the control group."`
	Missing  *Missing       `json:"missing,omitempty" doc:"What is needed for a decision; missing after it."`
	Warnings []string       `json:"warnings" doc:"Reasons to doubt the comparison."`
	Through  uint64         `json:"through" doc:"Sequence of the last event that is counted."`
	Behind   uint64         `json:"behind" doc:"Number of stored sequences that are not counted yet; above 0 after a start."`
}

// Effect is a difference with its interval, which holds at all looks together in 95 % of playbooks.
type Effect struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Arm has the counts and the means of one arm.
type Arm struct {
	Sessions int     `json:"sessions"`
	Runs     int     `json:"runs"`
	Rated    int     `json:"rated_sessions" doc:"Sessions with a reported outcome."`
	Outcomes int     `json:"outcomes" doc:"Runs with a reported outcome."`
	Score    float64 `json:"score" doc:"Mean score of the sessions, 0 to 100, each weighted by the inverse of the probability of its arm."`
	Failures float64 `json:"failures" doc:"Failures per 100 tasks, weighted in the same way."`
	Tokens   float64 `json:"tokens" doc:"Tokens per run, of the runs with a number of tokens."`
	Cost     float64 `json:"cost" doc:"US dollars per run, of the runs with a price."`
	Seconds  float64 `json:"seconds" doc:"Duration of a run, of the runs with a duration."`
}

// Missing is what a decision needs: an interval that excludes the present estimate, or SmallEffect if that is larger.
type Missing struct {
	Outcomes int     `json:"outcomes" doc:"About how many more outcomes, at the present rate of outcomes per session and the present share."`
	Sessions int     `json:"control_sessions" doc:"How many more sessions of the control group with an outcome."`
	Effect   float64 `json:"effect" doc:"Points that the interval can then exclude; 0 before the first interval."`
}

// Report returns the comparison. Nil sums are those without sessions. share is the control share now.
func (s *Sums) Report(b playbook.Book, share playbook.Share) *Report {
	if s == nil {
		s = new(Sums)
	}
	r := &Report{
		Book: b, Share: share, With: s.armOf(with), Without: s.armOf(without), Warnings: []string{},
		Points: s.effect(score, func(d float64) float64 { return 100 * d }), Avoided: s.effect(failures, func(d float64) float64 { return -100 * d }),
		Tokens: s.effect(tokens, percent), Cost: s.effect(cost, percent), Time: s.effect(duration, percent),
	}
	r.Status = r.status()
	r.Missing = s.missing(r)
	r.explain()
	r.warn(s)
	return r
}

// percent returns the change in percent for a difference of logarithms.
func percent(d float64) float64 { return 100 * math.Expm1(d) }

// effect returns the effect on a measure in the units of a report, or nil.
func (s *Sums) effect(m measure, unit func(float64) float64) *Effect {
	d, ok := s.difference(m)
	if !ok {
		return nil
	}
	low, high := unit(d.low), unit(d.high) // a unit may change the sign
	return &Effect{Mean: unit(d.mean), Low: min(low, high), High: max(low, high)}
}

// armOf returns the counts and the means of an arm.
func (s *Sums) armOf(which arm) (a Arm) {
	var sum [measures]moments
	for i := range s.shares {
		sums := &s.shares[i].arms[which]
		a.Sessions += sums.sessions
		a.Runs += sums.runs
		for m := range sum {
			sum[m].sessions += sums.byMeasure[m].sessions
			sum[m].runs += sums.byMeasure[m].runs
			sum[m].total += sums.byMeasure[m].total
		}
	}
	perRun := func(m measure) float64 { return sum[m].total / max(1, float64(sum[m].runs)) }
	a.Rated, a.Outcomes = sum[score].sessions, sum[score].runs
	a.Score, a.Failures = 100*s.meanOf(score, which).value, 100*s.meanOf(failures, which).value
	a.Tokens = perRun(tokens)
	a.Cost = perRun(cost)
	a.Seconds = perRun(duration)
	return a
}

// status returns the answer that the interval of the points gives.
func (r *Report) status() Status {
	e := r.Points
	switch {
	case r.With.Sessions+r.Without.Sessions == 0 && r.Share.PerMille() == 0:
		return Off
	case e == nil:
		return Collecting
	case e.Low > 0:
		return Helps
	case e.High < 0:
		return Harms
	case e.Low > -SmallEffect && e.High < SmallEffect:
		return NoEffect
	}
	return Unclear
}

// missing returns what a decision needs, or nil after it.
func (s *Sums) missing(r *Report) *Missing {
	switch r.Status {
	case Collecting:
		return missingForInterval(r)
	case Unclear:
		return s.missingForDecision(r)
	}
	return nil
}

// missingForInterval returns the data that the first interval still needs, up to minSessions rated sessions in each arm.
func missingForInterval(r *Report) *Missing {
	rated, outcomes := float64(r.With.Rated+r.Without.Rated), float64(r.With.Outcomes+r.Without.Outcomes)
	share := float64(r.Share.PerMille()) / 1000
	if share == 0 { // the control share was switched off
		share = min(max(0.001, float64(r.Without.Rated)/max(1, rated)), 0.999)
	}
	out := &Missing{Sessions: max(0, minSessions-r.Without.Rated)}
	sessions := max(float64(out.Sessions)/share, float64(minSessions-r.With.Rated)/(1-share)) // of both arms
	perSession := max(1, outcomes/max(1, rated))
	out.Outcomes = int(math.Ceil(perSession * sessions))
	return out
}

// missingForDecision returns the data that an interval needs until it excludes the present estimate.
func (s *Sums) missingForDecision(r *Report) *Missing {
	out := &Missing{Effect: max(SmallEffect, math.Abs(r.Points.Mean))}
	d, _ := s.difference(score)
	growth := growthFactor(d.variance, out.Effect/100) - 1
	out.Sessions = int(math.Ceil(growth * float64(r.Without.Rated)))
	out.Outcomes = int(math.Ceil(growth * float64(r.With.Outcomes+r.Without.Outcomes)))
	return out
}

// growthFactor returns the smallest factor by which the number of sessions must grow until half of the width of the interval is at most limit.
// variance is the present one, which falls with the number of sessions.
func growthFactor(variance, limit float64) float64 {
	low, high := 1.0, 1e9
	for high/low > 1.0001 {
		if mid := math.Sqrt(low * high); radius(variance/mid, alpha) > limit {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
