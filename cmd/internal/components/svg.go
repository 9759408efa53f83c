package components

import "math"

// round rounds a coordinate, so that the page is small.
func round(x float64) float64 { return math.Round(x*10) / 10 }
