package sliding

import (
	"math"
	"time"
)

// halfLife is the age at which recency is half of what it was.
const halfLife = 24 * time.Hour

// The weights of a score's parts, of sources and of flags are those of swecli's sliding window.
const (
	recencyWeight  = 0.3
	semanticWeight = 0.4
)

var sourceWeights = [...]float64{Error: 0.4, User: 0.3, Assistant: 0.2, File: 0.1, System: 0.1}

// An item's standing is part relevance, part place: what was said last matters to what is said next even where it
// shares no word with it.
const (
	relevanceShare = 0.6
	placeShare     = 0.4
)

// highest is the score that nothing exceeds, so that standing does not depend on which other items there are.
var highest = recencyWeight + allFlags.weight() + semanticWeight + sourceWeights[Error]

// Score is what an item is worth, part by part. Total is the sum of the four parts above it and is not capped: one flag
// more or a younger age is always a higher score. (From an age of some 50 days on, the difference is below what a float64
// can add; place still tells.)
type Score struct {
	Recency  float64 // 0.3 × 2^(-age/24h)
	Flags    float64 // starred 0.8, solution 0.7, error 0.6, question 0.5, code 0.4: the largest, and a tenth of the others
	Semantic float64 // 0.4 × likeness to the query
	Source   float64 // error 0.4, user 0.3, assistant 0.2, file and system 0.1
	Total    float64

	// Standing is by what ordinary items are let in: 0.6 × Total / 2.12, the highest there can be, + 0.4 × the place in
	// time order, from 0 for the oldest item to 1 for the newest.
	Standing float64
}

// score of the item at a place, from 0, of so many in time order.
func score(i *Item, now time.Time, place, of int) Score {
	f := readFlags(i.Text, i.Source)
	if i.Starred {
		f |= star
	}
	s := Score{
		Recency:  recencyWeight * recency(now.Sub(i.At)),
		Flags:    f.weight(),
		Semantic: semanticWeight * unit(i.Semantic),
		Source:   sourceWeights[System],
	}
	if int(i.Source) < len(sourceWeights) {
		s.Source = sourceWeights[i.Source]
	}
	s.Total = s.Recency + s.Flags + s.Semantic + s.Source
	s.Standing = relevanceShare*s.Total/highest + placeShare*float64(place)/float64(max(1, of-1))
	return s
}

// recency of an age, 1 for none. The future is no younger than now: another machine's clock is not relevance.
func recency(age time.Duration) float64 {
	return math.Exp2(-float64(max(0, age)) / float64(halfLife))
}

func unit(x float64) float64 {
	if !(x > 0) { // NaN as well
		return 0
	}
	return min(x, 1)
}
