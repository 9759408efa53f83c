package components

import "math"

// Round rounds a coordinate, so that the page is small.
func Round(x float64) float64 { return math.Round(x*10) / 10 }
