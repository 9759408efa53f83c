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
// rarely common. The other weights are factors of this weight. They were measured with other seeds of TestPlantedFactsAreFound.
const (
	maxLetters = 12
	pairWeight = 0.5 // of a pair, for the lighter of its words
	gramWeight = 3   // of all n-grams of a word together: the length of their sum as a vector
)

// HashedVector returns a text as a vector of unit length, for use without an embedding model. It is lexical: texts are
// similar if they share words, pairs of words or parts of words. So inflections, compounds and typing errors are
// similar, synonyms are not. The vector of a text without words is zero.
//
// Each word, each pair of neighbouring words and each n-gram of 3 to 5 characters is hashed to a dimension and a sign
// (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009; n-grams as in Bojanowski et al.,
// "Enriching Word Vectors with Subword Information", 2017).
//
// HashedVector writes the vector to dst if its capacity suffices.
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
		pair := previous*31 + hash                                    // another one if the words change places
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

// addGrams adds the n-grams of a word with its ends marked. weight is the length of their sum.
func addGrams(dst []float32, word []byte, weight float32) {
	const shortest, longest = 3, 5
	var runes [maxTermBytes + utf8.UTFMax + 2]rune
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
	weight /= float32(math.Sqrt(float64(n))) // of one n-gram
	for from := range marked {               // one hash gives all n-grams that begin here, each longer than the one before
		h := uint64(fnvOffset) + 1 // not the hash of a word with the same letters
		for i, r := range marked[from:min(from+longest, len(marked))] {
			h = (h ^ uint64(r)) * fnvPrime
			if i+1 >= shortest {
				addFeature(dst, h, weight)
			}
		}
	}
}

// Constants of FNV-1a.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// addFeature adds a feature to its dimension. The upper bits of the hash h are well mixed, the lower ones are not. The multiplication mixes all
// of them into the upper half (Fibonacci hashing, Knuth 6.4), which gives the dimension. One lower bit gives the sign.
func addFeature(dst []float32, h uint64, weight float32) {
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	if h&(1<<31) != 0 {
		weight = -weight
	}
	dst[(h>>32)*HashedDimension>>32] += weight
}
