package worth

import (
	"math"
	"slices"

	"debrief/events"
)

// measure is a measure of a session. Those before tokens are means over its outcomes or runs, the others logarithms of means over its runs.
type measure int

const (
	score    measure = iota // of the outcomes, 0 to 1
	failures                // share of the outcomes that are a failure
	rated                   // share of the runs that have an outcome
	tokens
	cost     // US dollars
	duration // seconds
	measures
)

// Session has the sums of the runs of one session in one arm. The zero value is a session without runs.
type Session struct {
	inControl bool              // the session is in the control group
	share     uint16            // of the control group, in tenths of a percent
	runs      [measures]int32   // with a value of the measure; for rated all runs
	sum       [measures]float64 // of the values of these runs
}

// Counts reports whether an execution is compared: it has a random arm. A missing arm means an evaluation, training, a call that is only
// observed, a recorded run, or a playbook without a control share.
func Counts(e *events.Execution) bool {
	return e.Control != nil && e.Control.Validate() == nil && e.Purpose != events.Evaluate && !e.Pinned
}

// Add adds a run for which Counts is true. The arm of a session is that of its first run. dollars is the cost of the run, 0 if it is unknown.
func (s *Session) Add(e *events.Execution, dollars float64) {
	if s.runs[rated] == 0 {
		s.inControl, s.share = e.Control.Held, uint16(e.Control.Share)
	}
	s.runs[rated]++
	for m, value := range [measures]float64{tokens: float64(e.Usage.Tokens()), cost: dollars, duration: e.Duration.Seconds()} {
		if value > 0 {
			s.runs[m]++
			s.sum[m] += value
		}
	}
	s.addOutcome(e.Outcome.Complete(), 1)
}

// Revise replaces the outcome of a run that was added.
func (s *Session) Revise(before, after events.Outcome) {
	s.addOutcome(before, -1)
	s.addOutcome(after, 1)
}

// addOutcome adds an outcome, or removes it if sign is -1. Unknown and inferred outcomes do not count. A session without outcomes stays as it
// is, because it may have begun again after the run whose outcome is removed.
func (s *Session) addOutcome(o events.Outcome, sign int) {
	if !o.Known() || o.Inferred || sign < 0 && s.runs[score] == 0 {
		return
	}
	values := [...]float64{score: o.Score, failures: 0}
	if o.Label == events.Failure {
		values[failures] = 1
	}
	s.sum[rated] += float64(sign)
	for m, value := range values {
		s.runs[m] += int32(sign)
		s.sum[m] += float64(sign) * value
	}
}

// value returns the value of a measure, or false if the session has none.
func (s *Session) value(m measure) (float64, bool) {
	switch {
	case s.runs[m] == 0:
		return 0, false
	case m >= tokens:
		return math.Log(s.sum[m] / float64(s.runs[m])), true
	}
	return s.sum[m] / float64(s.runs[m]), true
}

// Sums are the sums over the sessions of a playbook. Their size does not grow with the number of sessions.
type Sums struct {
	shares []shareSums
}

// shareSums are the sums of the sessions that were assigned with one control share.
type shareSums struct {
	share uint16
	arms  [2]armSums
}

// arm is one of the two groups of sessions that are compared.
type arm int

const (
	with    arm = iota // sessions with the playbook
	without            // sessions of the control group
)

// armSums are the sums of the sessions that got one arm with one probability.
type armSums struct {
	sessions, runs int
	byMeasure      [measures]moments
}

// moments are sums of a measure over the sessions that have a value.
type moments struct {
	sessions int
	sum      float64 // of the values of the sessions
	squares  float64 // of the squares of these values
	runs     int     // of these sessions
	total    float64 // of the values of the runs
}

// weight returns the inverse of the probability of an arm.
func (s *shareSums) weight(a arm) float64 {
	c := events.Control{Held: a == without, Share: int(s.share)}
	return 1 / c.Probability()
}

// Replace replaces a session by a later state of it. The zero Session adds a new one.
func (s *Sums) Replace(before, after *Session) {
	s.add(before, -1)
	s.add(after, 1)
}

// add adds a session, or removes it if sign is -1.
func (s *Sums) add(x *Session, sign int) {
	if x.runs[rated] == 0 {
		return
	}
	sums := s.sumsOf(x)
	sums.sessions += sign
	sums.runs += sign * int(x.runs[rated])
	for m := range measures {
		value, ok := x.value(m)
		if !ok {
			continue
		}
		of := &sums.byMeasure[m]
		of.sessions += sign
		of.sum += float64(sign) * value
		of.squares += float64(sign) * value * value
		of.runs += sign * int(x.runs[m])
		of.total += float64(sign) * x.sum[m]
	}
}

// sumsOf returns the sums to which a session belongs.
func (s *Sums) sumsOf(x *Session) *armSums {
	i := slices.IndexFunc(s.shares, func(part shareSums) bool { return part.share == x.share })
	if i < 0 {
		i = len(s.shares)
		s.shares = append(s.shares, shareSums{share: x.share})
	}
	if x.inControl {
		return &s.shares[i].arms[without]
	}
	return &s.shares[i].arms[with]
}
