package selection

import (
	"math"
	"time"

	"debrief/events/config"
	"debrief/playbook"
)

// Weights are the weights of the parts of a weighted sum. Only their proportions matter. The zero value disables the
// weighted sum.
type Weights struct {
	Effectiveness float64 `json:"effectiveness"`
	Recency       float64 `json:"recency"`   // of the last use
	Relevance     float64 `json:"relevance"` // to the query
}

// SWECLI holds the weights of swecli.
var SWECLI = Weights{Effectiveness: 0.5, Recency: 0.3, Relevance: 0.2}

// Validate returns all invalid weights, joined. A weight must be finite and not negative.
func (w Weights) Validate() error {
	var e config.Errors
	for _, part := range [...]struct {
		name   string
		weight float64
	}{{"Effectiveness", w.Effectiveness}, {"Recency", w.Recency}, {"Relevance", w.Relevance}} {
		if !(part.weight >= 0) || math.IsInf(part.weight, 0) { // NaN as well
			e.Add(part.name, "must be a finite number of at least 0, got %v", part.weight)
		}
	}
	return e.Join()
}

// shares returns the weights with sum 1. Without a query the weight of relevance is divided in proportion among the
// other two. If both are 0, they get the proportions of SWECLI, so that an order exists.
func (w Weights) shares(query bool) Weights {
	if !query {
		w.Relevance = 0
		if w == (Weights{}) {
			w = Weights{Effectiveness: SWECLI.Effectiveness, Recency: SWECLI.Recency}
		}
	}
	top := max(w.Effectiveness, w.Recency, w.Relevance) // divide first, because the sum of large weights may be infinite
	w = Weights{w.Effectiveness / top, w.Recency / top, w.Relevance / top}
	sum := w.Effectiveness + w.Recency + w.Relevance
	return Weights{w.Effectiveness / sum, w.Recency / sum, w.Relevance / sum}
}

// z is the normal quantile for a two-sided 95 % interval.
const z = 1.96

// wilson returns the lower bound of the 95 % score interval for the share of helpful votes (Wilson, "Probable
// inference, the law of succession, and statistical inference", 1927). The formula is rearranged to keep precision
// for large counts.
func wilson(helpful, harmful float64) float64 {
	n := helpful + harmful
	return (2*helpful + z*z - z*math.Sqrt(z*z+4*helpful*harmful/n)) / (2 * (n + z*z))
}

// effectiveness returns how reliably a bullet helps, from 0 to 1: the lower bound of wilson for its votes. A few
// votes count for less than many with the same share.
//
// Without a helpful vote this bound would be 0 for any number of harmful votes, and also for a new bullet, which
// would then never be shown and never get a vote. Such a bullet has half of its value after a first helpful vote: a
// new one has 0.103, and each harmful vote lowers it. So every helpful vote raises the value, every harmful vote
// lowers it, and different counts have different values.
//
// Neutral votes do not count here; they only count as uses.
func effectiveness(b *playbook.Bullet) float64 {
	helpful, harmful := float64(max(b.Helpful, 0)), float64(max(b.Harmful, 0))
	if helpful == 0 {
		return wilson(1, harmful) / 2
	}
	return wilson(helpful, harmful)
}

// lastUse returns the time of a bullet's last use, or of its last change if it was never used, in microseconds of the
// Unix epoch.
func lastUse(b *playbook.Bullet) int64 {
	switch {
	case !b.LastUsed.IsZero():
		return b.LastUsed.UnixMicro()
	case b.UpdatedAt.After(b.CreatedAt):
		return b.UpdatedAt.UnixMicro()
	}
	return b.CreatedAt.UnixMicro()
}

// recency returns 1/(1+0.1·days) for the days since the last use, as in swecli: 1 now and ½ after ten days. It never
// reaches 0, so the order by age is kept.
func recency(now, used int64) float64 {
	return 1 / (1 + 0.1*max(0, float64(now-used)/float64(day)))
}

const day = int64(24 * time.Hour / time.Microsecond)
