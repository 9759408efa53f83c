package steps

import (
	"math"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events/chat"
)

// ValidCost returns a recorded cost in US dollars, or 0 if it is negative, NaN or implausibly large.
func ValidCost(p float64) float64 {
	if p < 0 || p > 1e9 || math.IsNaN(p) {
		return 0
	}
	return p
}

// ValidDuration converts recorded seconds to a duration. It returns 0 for a negative or implausible value.
func ValidDuration(s float64) time.Duration {
	const year = 365 * 24 * 3600
	if s < 0 || s > year {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// Usage returns the usage of a number of model calls. The value tokens is an object with the counts under the names of any API or
// recorder. The cost is in US dollars.
func Usage(calls int, tokens modelapi.Value, cost float64) chat.Usage {
	u := tokens.Usage()
	return chat.Usage{
		Calls:        calls,
		InputTokens:  u.InputTokens,
		CachedTokens: u.CachedTokens,
		OutputTokens: u.OutputTokens,
		Cost:         ValidCost(cost),
	}
}
