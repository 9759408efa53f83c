package recall

import (
	"math"
	"unicode/utf8"
)

// What Hashed makes. Another way of hashing is another model.
const (
	HashedModel     = "hashed-ngrams-1"
	HashedDimension = 384
)

// Weights. A word weighs as many as it has letters, up to maxLetters: long words are seldom common ones, and how common
// they are is not known here. Pairs and pieces weigh so much more or less. Measured on the planted facts of the tests,
// with other seeds than theirs.
const (
	maxLetters = 12
	pairWeight = 0.5
	gramWeight = 3 // of all pieces of a word together, as a length
)

// Hashed is a text as a vector of unit length, for where there is no embedding model. It is lexical: texts are alike if
// they share words, pairs of words and pieces of words, so it sees through inflections, compounds and typing errors, and
// knows no synonyms. A text without a word is all zeros.
//
// Each word, each pair of neighbours and each 3 to 5 neighbouring characters of a word is hashed to one of the
// dimensions and to a sign (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009; the
// characters as in Bojanowski et al., "Enriching Word Vectors with Subword Information", 2017).
//
// The vector is put into dst if that has the room.
func Hashed(text string, dst []float32) []float32 {
	if cap(dst) < HashedDimension {
		dst = make([]float32, HashedDimension)
	}
	dst = dst[:HashedDimension]
	clear(dst)
	hash, weight := uint64(0), float32(0) // of the word before
	eachTerm(text, func(word []byte) {
		before, lighter := hash, weight
		hash, weight = offset, float32(min(utf8.RuneCount(word), maxLetters))
		for _, c := range word {
			hash = (hash ^ uint64(c)) * prime
		}
		add(dst, hash, weight)
		add(dst, before*31+hash, pairWeight*min(weight, lighter)) // nothing for the first
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

// addGrams adds the pieces of a word, its ends marked. All together they are of this length.
func addGrams(dst []float32, word []byte, weight float32) {
	const shortest, longest = 3, 5
	var runes [longestTerm + utf8.UTFMax + 2]rune
	marked := append(runes[:0], '^')
	for _, r := range string(word) {
		marked = append(marked, r)
	}
	marked = append(marked, '$')
	n := 0
	for size := shortest; size <= min(longest, len(marked)); size++ {
		n += len(marked) - size + 1
	}
	if n == 0 {
		return
	}
	weight /= float32(math.Sqrt(float64(n)))
	for from := range marked {
		h := uint64(offset) + 1 // so that a word and an n-gram of the same letters differ
		for i, r := range marked[from:min(from+longest, len(marked))] {
			h = (h ^ uint64(r)) * prime
			if i+1 >= shortest {
				add(dst, h, weight)
			}
		}
	}
}

// Of FNV-1a.
const (
	offset = 14695981039346656037
	prime  = 1099511628211
)

// add adds a feature to its dimension. FNV mixes its upper bits well and its lower ones badly; the multiplication puts
// them all into the upper half (Fibonacci hashing, Knuth 6.4).
func add(dst []float32, h uint64, weight float32) {
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	if h&(1<<31) != 0 {
		weight = -weight
	}
	dst[(h>>32)*HashedDimension>>32] += weight
}
