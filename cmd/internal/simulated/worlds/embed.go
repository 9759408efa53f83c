package worlds

import (
	"maps"
	"math"
	"slices"
)

// dimensions of an embedding.
const dimensions = 256

// Embed returns one vector of length 1 for a text, from the features that World.Features returns for it: the sum of one random direction
// for each feature, times its weight. Texts with the same features have similar vectors. Without features the vector is the first unit
// vector.
func Embed(features map[string]float64) []float32 {
	sum := make([]float64, dimensions)
	// Sorted, because the order of a sum of floating-point numbers changes its result.
	for _, name := range slices.Sorted(maps.Keys(features)) {
		weight := features[name]
		x := Draw(0, "direction", name)
		for i := range sum {
			// SplitMix64 gives one number for each dimension.
			x += 0x9e3779b97f4a7c15
			z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			z ^= z >> 31
			sum[i] += weight * (float64(z>>11)/(1<<52) - 1)
		}
	}
	square := 0.0
	for _, v := range sum {
		square += v * v
	}
	if square == 0 {
		sum[0], square = 1, 1
	}
	out := make([]float32, dimensions)
	for i, v := range sum {
		out[i] = float32(v / math.Sqrt(square))
	}
	return out
}

// AddNoise adds a feature that only this text has. Its weight is 0.25 to 0.75.
func AddNoise(features map[string]float64, text string) {
	features["noise "+text] = 0.25 + 0.5*Uniform(0, "noise", text)
}
