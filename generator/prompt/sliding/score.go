package sliding

import (
	"math"
	"time"
)

// halfLife is the age at which recency has fallen to a half.
const halfLife = 24 * time.Hour

// The weights of the parts, sources and flags are those of swecli's sliding window.
const (
	recencyWeight  = 0.3
	semanticWeight = 0.4
)

var sourceWeights = [...]float64{Error: 0.4, User: 0.3, Assistant: 0.2, File: 0.1, System: 0.1}

// Priority combines relevance and position. The newest items matter for the next answer even if they share no word
// with the query.
const (
	relevanceShare = 0.6
	positionShare  = 0.4
)

// maxTotal is the maximum of Score.Total. Dividing by it makes the priority of an item independent of the other
// items.
var maxTotal = recencyWeight + allFlags.weight() + semanticWeight + sourceWeights[Error]

// Score is the score of an item by parts. Total is the sum of the four parts before it. It is not capped, so one more
// flag or a younger age always raises it. From an age of about 50 days the difference in recency is below the
// precision of a float64; the position still decides there.
type Score struct {
	Recency  float64 // 0.3 × 2^(-age/24h)
	Flags    float64 // starred 0.8, solution 0.7, error 0.6, question 0.5, code 0.4: the largest, and a tenth of the others
	Semantic float64 // 0.4 × similarity to the query
	Source   float64 // error 0.4, user 0.3, assistant 0.2, file and system 0.1
	Total    float64

	// Priority orders the ordinary items: 0.6 × Total / 2.12, which is the maximum of Total, + 0.4 × position. The
	// position is 0 for the oldest item and 1 for the newest.
	Priority float64
}

// score returns the score of the item at a position, from 0, among n items in time order.
func score(i *Item, now time.Time, position, n int) Score {
	f := detectFlags(i.Text, i.Source)
	if i.Starred {
		f |= star
	}
	s := Score{
		Recency:  recencyWeight * recency(now.Sub(i.At)),
		Flags:    f.weight(),
		Semantic: semanticWeight * clampUnit(i.Semantic),
		Source:   sourceWeights[System],
	}
	if int(i.Source) < len(sourceWeights) {
		s.Source = sourceWeights[i.Source]
	}
	s.Total = s.Recency + s.Flags + s.Semantic + s.Source
	s.Priority = relevanceShare*s.Total/maxTotal + positionShare*float64(position)/float64(max(1, n-1))
	return s
}

// recency returns 1 for an age of 0 or less and falls by half per halfLife. A time in the future comes from the clock
// of another machine and counts as now.
func recency(age time.Duration) float64 {
	return math.Exp2(-float64(max(0, age)) / float64(halfLife))
}

func clampUnit(x float64) float64 {
	if !(x > 0) { // NaN as well
		return 0
	}
	return min(x, 1)
}
