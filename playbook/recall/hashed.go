package recall

import (
	"math"
	"unicode/utf8"
)

// Model name and dimension of HashedVector. A different hash needs a different model name.
const (
	HashedModel     = "hashed-ngrams-2"
	HashedDimension = 384
)

// Weights of features. The weight of a word is its number of letters, up to maxLetters: frequencies are unknown here, and long words are
// rarely common. The other weights are factors of this weight. Their values gave the best results of TestPlantedFactsAreFound, with other seeds.
const (
	maxLetters = 12
	pairWeight = 0.5 // of a pair of words, as a factor of the smaller weight of the two
	gramWeight = 3   // of all n-grams of a word together
)

// HashedVector returns a text as a vector of unit length, for use without an embedding model. It is lexical: texts are
// similar if they share words, pairs of words or parts of words. So inflections, compounds and typing errors are
// similar, synonyms are not. The vector of a text without words is zero.
//
// Each word, each pair of neighbouring words and each n-gram of 3 to 5 characters is hashed to a dimension and a sign
// (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009; n-grams as in Bojanowski et al.,
// "Enriching Word Vectors with Subword Information", 2017).
//
// HashedVector writes the vector to dst and returns it. If the capacity of dst is too small, it allocates a new vector.
func HashedVector(text string, dst []float32) []float32 {
	if cap(dst) < HashedDimension {
		dst = make([]float32, HashedDimension)
	}
	dst = dst[:HashedDimension]
	clear(dst)
	hash, weight := uint64(0), float32(0) // of the previous word
	eachTerm(text, func(word []byte) {
		previous, previousWeight := hash, weight
		hash, weight = fnvOffset, float32(min(utf8.RuneCount(word), maxLetters))
		for _, c := range word {
			hash = (hash ^ uint64(c)) * fnvPrime
		}
		addFeature(dst, hash, weight)
		pair := previous*31 + hash                                    // differs from the hash of the same words in the other order
		addFeature(dst, pair, pairWeight*min(weight, previousWeight)) // adds 0 for the first word
		addGrams(dst, word, gramWeight*weight)
	})
	length := math.Sqrt(dot(dst, dst))
	if length == 0 {
		return dst
	}
	for i := range dst {
		dst[i] = float32(float64(dst[i]) / length)
	}
	return dst
}

// addGrams adds the n-grams of a word to a vector. A mark at each end of the word makes its first and last n-grams different from inner ones.
// weight is the weight of all n-grams together.
func addGrams(dst []float32, word []byte, weight float32) {
	const shortest, longest = 3, 5
	var runes [maxTermBytes + utf8.UTFMax + 2]rune // the last character of a term may go beyond maxTermBytes; 2 marks
	marked := append(runes[:0], '^')
	for _, r := range string(word) {
		marked = append(marked, r)
	}
	marked = append(marked, '$')
	n := 0 // number of n-grams
	for size := shortest; size <= min(longest, len(marked)); size++ {
		n += len(marked) - size + 1
	}
	if n == 0 {
		return
	}
	// The n-grams mostly have different dimensions, so their sum is √n times as long as one of them.
	gramWeight := weight / float32(math.Sqrt(float64(n)))
	for from := range marked { // hash all n-grams that begin here, from the shortest to the longest
		h := uint64(fnvOffset) + 1 // so that an n-gram and a word with the same letters have different hashes
		for i, r := range marked[from:min(from+longest, len(marked))] {
			h = (h ^ uint64(r)) * fnvPrime
			if i+1 >= shortest {
				addFeature(dst, h, gramWeight)
			}
		}
	}
}

// Constants of FNV-1a.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// addFeature adds the weight of a feature to the dimension that its hash h selects, with the sign that h selects. FNV mixes the lower bits of h
// badly, so addFeature mixes h again (Fibonacci hashing, Knuth 6.4). The upper 32 bits then select the dimension, and bit 31 the sign.
func addFeature(dst []float32, h uint64, weight float32) {
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	if h&(1<<31) != 0 {
		weight = -weight
	}
	dimension := (h >> 32) * HashedDimension >> 32 // scales 32 bits to 0..HashedDimension-1
	dst[dimension] += weight
}
