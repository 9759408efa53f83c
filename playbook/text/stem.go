package text

import "strings"

// Stem removes plural and verb endings from an English word in lower case. It does a large part of step 1 of Porter, "An
// algorithm for suffix stripping" (1980). It also removes a final e, and one letter of a doubled final consonant: "price",
// "prices", "priced" and "pricing" all become "pric". A word with any other character than a to z stays unchanged. Stem may change the
// bytes of a []byte.
func Stem[T string | []byte](word T) T {
	for i := range len(word) {
		if c := word[i]; c < 'a' || c > 'z' {
			return word
		}
	}
	switch {
	case hasSuffix(word, "sses", 2):
		word = word[:len(word)-2]
	case hasSuffix(word, "ies", 2):
		return endInY(word)
	case hasSuffix(word, "s", 3) && !hasSuffix(word, "ss", 0) && !hasSuffix(word, "us", 0) && !hasSuffix(word, "is", 0):
		word = word[:len(word)-1]
	}
	switch {
	case hasSuffix(word, "ied", 2):
		return endInY(word)
	case hasSuffix(word, "ed", 3) && !hasSuffix(word, "eed", 0) && hasVowel(word[:len(word)-2]):
		word = word[:len(word)-2]
	case hasSuffix(word, "ing", 3) && hasVowel(word[:len(word)-3]):
		word = word[:len(word)-3]
	}
	if hasSuffix(word, "e", 3) && !hasSuffix(word, "ee", 0) {
		word = word[:len(word)-1]
	}
	if n := len(word); n > 3 && word[n-1] == word[n-2] && !isVowel(word[n-1]) {
		word = word[:n-1]
	}
	return word
}

// endInY replaces the last three bytes by y.
func endInY[T string | []byte](word T) T { return T(append([]byte(word[:len(word)-3]), 'y')) }

// hasSuffix reports whether a word ends in a suffix and has at least minBefore letters before it.
func hasSuffix[T string | []byte](word T, suffix string, minBefore int) bool {
	return len(word) >= minBefore+len(suffix) && string(word[len(word)-len(suffix):]) == suffix
}

func hasVowel[T string | []byte](word T) bool {
	for i := range len(word) {
		if isVowel(word[i]) {
			return true
		}
	}
	return false
}

func isVowel(c byte) bool { return strings.IndexByte("aeiouy", c) >= 0 }
