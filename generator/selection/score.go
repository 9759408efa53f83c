package selection

import (
	"errors"
	"fmt"
	"math"
	"time"

	"debrief/playbook"
)

// Weights say how much each part of a bullet's score counts. Only their proportions matter: they are used as shares of
// their sum. The zero value stands for Default.
type Weights struct {
	Effectiveness float64 `json:"effectiveness" help:"Weight of how surely a bullet helps, in its score." default:"0.5"`
	Recency       float64 `json:"recency" help:"Weight of how lately it was used." default:"0.3"`
	Relevance     float64 `json:"relevance" help:"Weight of how near it is to the query." default:"0.2"`
}

// Default is what swecli weighs with.
var Default = Weights{Effectiveness: 0.5, Recency: 0.3, Relevance: 0.2}

// Validate says which weight cannot be used: each is finite and not negative, and one of them is more than zero.
func (w Weights) Validate() error {
	var errs []error
	for _, part := range [...]struct {
		name   string
		weight float64
	}{{"effectiveness", w.Effectiveness}, {"recency", w.Recency}, {"relevance", w.Relevance}} {
		if !(part.weight >= 0) || math.IsInf(part.weight, 0) { // NaN as well
			errs = append(errs, fmt.Errorf("%s: must be a number from 0 on, got %v", part.name, part.weight))
		}
	}
	if w == (Weights{}) {
		errs = append(errs, errors.New("weights: one of them must be more than 0"))
	}
	return errors.Join(errs...)
}

// shares are the weights as they are used, with the sum 1. Without a query the part of relevance goes to the other two,
// in proportion; where these have none, it goes to them as in Default, for some order there must be.
func (w Weights) shares(query bool) Weights {
	if w == (Weights{}) {
		w = Default
	}
	if !query {
		w.Relevance = 0
		if w == (Weights{}) {
			w = Weights{Effectiveness: Default.Effectiveness, Recency: Default.Recency}
		}
	}
	top := max(w.Effectiveness, w.Recency, w.Relevance) // by which first: the sum of large ones may be infinite
	w = Weights{w.Effectiveness / top, w.Recency / top, w.Relevance / top}
	sum := w.Effectiveness + w.Recency + w.Relevance
	return Weights{w.Effectiveness / sum, w.Recency / sum, w.Relevance / sum}
}

// z is the normal quantile of a two-sided 95 % interval.
const z = 1.96

// wilson is the lower end of the 95 % score interval for the share of helpful votes (Wilson, "Probable inference, the law
// of succession, and statistical inference", 1927), multiplied out so that nothing is lost with large counts.
func wilson(helpful, harmful float64) float64 {
	n := helpful + harmful
	return (2*helpful + z*z - z*math.Sqrt(z*z+4*helpful*harmful/n)) / (2 * (n + z*z))
}

// effectiveness is how surely a bullet helps, from 0 to 1: Wilson's lower bound of helpful in helpful and harmful votes.
// Few votes count for less than many with the same share.
//
// Of a bullet that never helped the bound is 0, with one harmful vote as with a hundred, and for a new one as well, which
// then would never be shown beside others and never get a vote. Such a bullet is given half of what its first helpful
// vote would make it: a new one 0.103, less with each harmful vote. So a helpful vote always raises, a harmful one always
// lowers, and no two counts are the same to it.
//
// Neutral votes say that a bullet was there and did not matter. They count neither for nor against it, but it was used.
func effectiveness(b *playbook.Bullet) float64 {
	helpful, harmful := float64(max(b.Helpful, 0)), float64(max(b.Harmful, 0))
	if helpful == 0 {
		return wilson(1, harmful) / 2
	}
	return wilson(helpful, harmful)
}

// lastUse is when a bullet was last used, or made or changed where it never was: in microseconds of the Unix epoch.
func lastUse(b *playbook.Bullet) int64 {
	switch {
	case !b.LastUsed.IsZero():
		return b.LastUsed.UnixMicro()
	case b.UpdatedAt.After(b.CreatedAt):
		return b.UpdatedAt.UnixMicro()
	}
	return b.CreatedAt.UnixMicro()
}

// recency falls with the days since the last use, 1/(1+0.1·days) as in swecli: 1 now, a half after ten days. It never
// gets to 0, so the older of two stays the older.
func recency(now, used int64) float64 {
	return 1 / (1 + 0.1*max(0, float64(now-used)/float64(day)))
}

const day = int64(24 * time.Hour / time.Microsecond)
