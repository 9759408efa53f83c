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
	all, _, err := s.runs()
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

// worthOf compares the sessions of a playbook.
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
	var sums [2]struct{ tokens, dollars, seconds, tokenRuns, dollarRuns, secondRuns float64 }
	for _, runs := range sessions {
		first := runs[0].Control
		arm, at := &w.With, 0
		if first.Held {
			arm, at = &w.Without, 1
		}
		arm.Sessions++
		var n, score, failed, tokens, tokenRuns, dollars, dollarRuns, seconds, secondRuns float64
		for _, e := range runs {
			arm.Runs++
			if y, isFailure, ok := e.Outcome.rated(); ok {
				n++
				score += y
				if isFailure {
					failed++
				}
			}
			if t := e.Usage.Input + e.Usage.Output; t > 0 {
				tokens += float64(t)
				tokenRuns++
			}
			if e.Usage.Dollars > 0 {
				dollars += e.Usage.Dollars
				dollarRuns++
			}
			if e.Took > 0 {
				seconds += float64(e.Took) / 1e9
				secondRuns++
			}
		}
		arm.Outcomes += int(n)
		add := func(name string, y, n float64) {
			if n > 0 {
				values[name] = append(values[name], worthValue{first.Held, first.Share, y})
			}
		}
		if n > 0 {
			arm.Rated++
		}
		add("points", score/n, n)
		add("failures_avoided", failed/n, n)
		add("tokens_percent", math.Log(tokens/tokenRuns), tokenRuns)
		add("cost_percent", math.Log(dollars/dollarRuns), dollarRuns)
		add("time_percent", math.Log(seconds/secondRuns), secondRuns)
		t := &sums[at]
		t.tokens, t.dollars, t.seconds = t.tokens+tokens, t.dollars+dollars, t.seconds+seconds
		t.tokenRuns, t.dollarRuns, t.secondRuns = t.tokenRuns+tokenRuns, t.dollarRuns+dollarRuns, t.secondRuns+secondRuns
	}
	for at, arm := range []*WorthArm{&w.With, &w.Without} {
		t := sums[at]
		arm.Tokens, arm.Dollars, arm.Seconds = t.tokens/max(1, t.tokenRuns), t.dollars/max(1, t.dollarRuns), t.seconds/max(1, t.secondRuns)
		arm.Score, arm.Failures = 100*worthMean(values["points"], at == 1), 100*worthMean(values["failures_avoided"], at == 1)
	}
	for name, all := range values {
		mean, half, ok := worthInterval(all)
		if !ok {
			continue
		}
		e := WorthEffect{100 * mean, 100 * (mean - half), 100 * (mean + half)}
		switch {
		case name == "failures_avoided":
			e = WorthEffect{-e.Mean, -e.High, -e.Low}
		case strings.HasSuffix(name, "_percent"):
			e = WorthEffect{100 * (math.Exp(mean) - 1), 100 * (math.Exp(mean-half) - 1), 100 * (math.Exp(mean+half) - 1)}
		}
		w.Effects[name] = e
	}
	return w
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
// sequence with α = 0.05 and τ = 0.1. It is false with fewer than 20 sessions in an arm.
func worthInterval(all []worthValue) (mean, half float64, ok bool) {
	var spread, weight [2]float64 // by arm: 0 with, 1 without the playbook
	means := [2]float64{worthMean(all, false), worthMean(all, true)}
	var n [2]float64
	index := func(held bool) int {
		if held {
			return 1
		}
		return 0
	}
	counts := map[int]*[2]float64{} // sessions by share and arm
	for _, v := range all {
		a := index(v.held)
		n[a]++
		weight[a] += v.weight()
		spread[a] += v.weight() * (v.y - means[a]) * (v.y - means[a])
		if counts[v.share] == nil {
			counts[v.share] = new([2]float64)
		}
		counts[v.share][a]++
	}
	if n[0] < 20 || n[1] < 20 {
		return 0, 0, false
	}
	for a := range spread {
		spread[a] = spread[a]/weight[a] + 1/n[a] // with an imagined session that is one unit from the mean
	}
	raw := spread
	for a := range spread { // 20 imagined sessions with the larger spread of the other arm
		if other := raw[1-a]; other > raw[a] {
			spread[a] = (n[a]*raw[a] + 20*other) / (n[a] + 20)
		}
	}
	variance := 0.0
	for a := range weight {
		missing := 0.0 // squared weights of the sessions that the probability of the arm lets expect, less those of the sessions seen
		for share, c := range counts {
			p := [2]float64{1 - float64(share)/1000, float64(share) / 1000}[a] // probability of the arm
			variance += spread[a] * c[a] / (p * p) / (weight[a] * weight[a])
			missing += max(0, (c[0]+c[1])/p-c[a]/(p*p))
		}
		variance += missing * max(spread[0], spread[1]) / (weight[a] * weight[a])
	}
	const tau2 = 0.01
	half = math.Sqrt(2 * variance * (variance + tau2) / tau2 * (0.5*math.Log((variance+tau2)/variance) + math.Log(20)))
	return means[0] - means[1], half, true
}
