package world

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"math"
	"slices"
)

// Draw returns a pseudo-random number: a hash of the seed, the purpose and the texts.
func Draw(seed uint64, purpose string, texts ...string) uint64 {
	h := fnv.New64a()
	var n [8]byte
	field := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		_, _ = h.Write(n[:])
		_, _ = h.Write([]byte(s))
	}
	binary.BigEndian.PutUint64(n[:], seed)
	_, _ = h.Write(n[:])
	field(purpose)
	for _, t := range texts {
		field(t)
	}
	return Mix(h.Sum64())
}

// Mix mixes the bits of an FNV hash. The last bytes of the input of such a hash change only its low bits. It is the
// finaliser of MurmurHash3.
func Mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Uniform returns a number from 0 to 1, without 1, from Draw.
func Uniform(seed uint64, purpose string, texts ...string) float64 {
	return float64(Draw(seed, purpose, texts...)>>11) / (1 << 53)
}

// Chance returns true for a share of the texts. A rate of 0 is never, 1 is always.
func Chance(rate float64, seed uint64, purpose string, texts ...string) bool {
	return rate > 0 && Uniform(seed, purpose, texts...) < rate
}

// dimensions of an embedding.
const dimensions = 256

// vector returns a vector of length 1 that is the sum of one random direction for each feature, times its weight. Texts
// with the same features have similar vectors. Without features the vector is the first unit vector.
func vector(features map[string]float64) []float32 {
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

// Embed returns a vector for each text, from its features.
func Embed(texts []string, features func(text string) map[string]float64) [][]float32 {
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = vector(features(t))
	}
	return out
}

// Cross returns n combinations of two lists. The seed selects the first one, and each next one is stride further.
func Cross(n int, seed uint64, stride int, starts, ends []string) []string {
	out := make([]string, n)
	total := len(starts) * len(ends)
	from := int(seed % uint64(total))
	for i := range out {
		k := (from + i*stride) % total
		out[i] = starts[k%len(starts)] + " " + ends[k/len(starts)]
	}
	return out
}

// Distinct returns the first n different texts of a sequence.
func Distinct(n int, write func(i int) string) []string {
	seen := make(map[string]bool)
	var out []string
	for i := 0; len(out) < n; i++ {
		if text := write(i); !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	return slices.Clip(out)
}
