package auditor

import (
	"fmt"
	"math"
	"strings"
)

// Worth compares the sessions of a playbook with those of its control group, recomputed from the messages. The names are those of the
// API at /books/{book}/worth.
type Worth struct {
	With, Without WorthArm
	// Effects has the effects for which there are enough sessions, by their name in the API.
	Effects map[string]WorthEffect
}

// WorthArm has the numbers of an arm.
type WorthArm struct {
	Sessions, Runs, Rated, Outcomes           int
	Score, Failures, Tokens, Dollars, Seconds float64
}

// WorthEffect is an effect with its interval.
type WorthEffect struct{ Mean, Low, High float64 }

// CheckWorth recomputes the comparison of a playbook. It keeps every run in memory and computes each mean and variance in two passes.
// Models must have no price in the table of the product: the cost is that of the executions.
func CheckWorth(s *Streams, book string) (*Worth, error) {
	all, err := s.runs()
	if err != nil {
		return nil, err
	}
	return worthOf(all, book), nil
}

// worthValue is the value of a session for one measure.
type worthValue struct {
	held  bool
	share int
	y     float64
}

func (v worthValue) weight() float64 {
	if v.held {
		return 1000 / float64(v.share)
	}
	return 1000 / float64(1000-v.share)
}

// tally is a sum of n values.
type tally struct{ sum, n float64 }

func (t *tally) add(y float64) {
	t.sum += y
	t.n++
}

func (t *tally) addAll(other tally) {
	t.sum += other.sum
	t.n += other.n
}

func (t tally) mean() float64 { return t.sum / max(1, t.n) }

// runTallies have a value for each run that has one.
type runTallies struct{ score, failures, tokens, dollars, seconds tally }

func (t *runTallies) count(r *run) {
	if r.Outcome.isRated() {
		t.score.add(r.Outcome.score())
		failed := 0.0
		if r.Outcome.label() == "failure" {
			failed = 1
		}
		t.failures.add(failed)
	}
	if n := r.Usage.Input + r.Usage.Output; n > 0 {
		t.tokens.add(float64(n))
	}
	if r.Usage.Dollars > 0 {
		t.dollars.add(r.Usage.Dollars)
	}
	if r.Took > 0 {
		t.seconds.add(float64(r.Took) / 1e9)
	}
}

// worthOf compares the sessions of a playbook. A run without a session counts as one session.
func worthOf(all []*run, book string) *Worth {
	sessions := map[string][]*run{}
	for _, e := range all {
		if e.Book != book || e.Control == nil || e.Purpose == "evaluate" || e.Pinned {
			continue
		}
		key := fmt.Sprintf("%q session %q", e.Owner, e.Session)
		if e.Session == "" {
			key = fmt.Sprintf("%q run %q", e.Owner, e.Run)
		}
		sessions[key] = append(sessions[key], e)
	}
	w := &Worth{Effects: map[string]WorthEffect{}}
	values := map[string][]worthValue{}
	var with, without runTallies
	for _, runs := range sessions {
		first := runs[0].Control
		arm, total := &w.With, &with
		if first.Held {
			arm, total = &w.Without, &without
		}
		var session runTallies
		for _, r := range runs {
			session.count(r)
		}
		arm.Sessions++
		arm.Runs += len(runs)
		arm.Outcomes += int(session.score.n)
		if session.score.n > 0 {
			arm.Rated++
		}
		add := func(effect string, t tally, scale func(mean float64) float64) {
			if t.n > 0 {
				values[effect] = append(values[effect], worthValue{first.Held, first.Share, scale(t.mean())})
			}
		}
		asIs := func(mean float64) float64 { return mean }
		add("points", session.score, asIs)
		add("failures_avoided", session.failures, asIs)
		add("tokens_percent", session.tokens, math.Log)
		add("cost_percent", session.dollars, math.Log)
		add("time_percent", session.seconds, math.Log)
		total.tokens.addAll(session.tokens)
		total.dollars.addAll(session.dollars)
		total.seconds.addAll(session.seconds)
	}
	w.With.Tokens, w.Without.Tokens = with.tokens.mean(), without.tokens.mean()
	w.With.Dollars, w.Without.Dollars = with.dollars.mean(), without.dollars.mean()
	w.With.Seconds, w.Without.Seconds = with.seconds.mean(), without.seconds.mean()
	w.With.Score, w.Without.Score = 100*worthMean(values["points"], false), 100*worthMean(values["points"], true)
	w.With.Failures, w.Without.Failures = 100*worthMean(values["failures_avoided"], false), 100*worthMean(values["failures_avoided"], true)
	for name, all := range values {
		if mean, half, ok := worthInterval(all); ok {
			w.Effects[name] = effectOf(name, mean, half)
		}
	}
	return w
}

// effectOf returns an effect in the unit of its name, from the difference of the arms and half of the width of its interval.
func effectOf(name string, mean, half float64) WorthEffect {
	low, high := mean-half, mean+half
	switch {
	case name == "failures_avoided":
		return WorthEffect{-100 * mean, -100 * high, -100 * low}
	case strings.HasSuffix(name, "_percent"): // of the logarithm
		return WorthEffect{100 * (math.Exp(mean) - 1), 100 * (math.Exp(low) - 1), 100 * (math.Exp(high) - 1)}
	}
	return WorthEffect{100 * mean, 100 * low, 100 * high}
}

// worthMean is the mean of an arm, weighted by the inverse of the probability of the arm.
func worthMean(all []worthValue, held bool) float64 {
	weight, sum := 0.0, 0.0
	for _, v := range all {
		if v.held == held {
			weight += v.weight()
			sum += v.weight() * v.y
		}
	}
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// worthInterval returns the difference of the arms, with minus without the playbook, and half of the width of its interval: the confidence
// sequence with α = 0.05. It is false with fewer than 20 sessions in an arm.
func worthInterval(all []worthValue) (mean, half float64, ok bool) {
	var n, weight, squares [2]float64 // by arm: 0 with, 1 without the playbook
	means := [2]float64{worthMean(all, false), worthMean(all, true)}
	counts := map[int]*[2]float64{} // sessions by share and arm
	for _, v := range all {
		a := 0
		if v.held {
			a = 1
		}
		n[a]++
		weight[a] += v.weight()
		squares[a] += v.weight() * (v.y - means[a]) * (v.y - means[a])
		if counts[v.share] == nil {
			counts[v.share] = new([2]float64)
		}
		counts[v.share][a]++
	}
	if n[0] < 20 || n[1] < 20 {
		return 0, 0, false
	}
	var own [2]float64 // variance of the sessions of an arm and of an imagined one that is one unit from the mean
	for a := range own {
		own[a] = squares[a]/weight[a] + 1/n[a]
	}
	spread := own
	for a, other := range [2]float64{own[1], own[0]} {
		if other > own[a] { // as with 20 imagined sessions that have the larger variance of the other arm
			spread[a] = (n[a]*own[a] + 20*other) / (n[a] + 20)
		}
	}
	variance := 0.0 // of the difference
	for a := range weight {
		squaredWeights, missing := 0.0, 0.0
		for share, c := range counts {
			p := [2]float64{1 - float64(share)/1000, float64(share) / 1000}[a] // probability of the arm
			got, expected := c[a]/(p*p), (c[0]+c[1])/p
			squaredWeights += got
			missing += max(0, expected-got)
		}
		variance += (spread[a]*squaredWeights + max(spread[0], spread[1])*missing) / (weight[a] * weight[a])
	}
	return means[0] - means[1], worthHalfWidth(variance), true
}

// worthHalfWidth returns half of the width of the confidence sequence with α = 0.05 and τ = 0.1, by the variance of the difference.
func worthHalfWidth(variance float64) float64 {
	const tau2 = 0.01
	return math.Sqrt(2 * variance * (variance + tau2) / tau2 * (math.Log1p(tau2/variance)/2 + math.Log(20)))
}
