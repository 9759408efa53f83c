package similar

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// normalize returns the words and symbols of a text in one case, separated by single spaces, or "" if it has none.
// Words consist of letters, their marks, and numbers.
func normalize(s string) string {
	buf := make([]byte, 0, len(s)+8)
	spaceNeeded := false
	for _, r := range s {
		switch r, class := classify(r); class {
		case inWord, symbol:
			if (spaceNeeded || class == symbol) && len(buf) > 0 {
				buf = append(buf, ' ')
			}
			buf = utf8.AppendRune(buf, r)
			spaceNeeded = class == symbol
		case separator:
			spaceNeeded = true
		}
	}
	return string(buf)
}

// Roles of a character in a text.
const (
	separator = iota
	inWord    // part of a word
	symbol    // a word by itself
	ignored
)

// classify returns a character without case and width, and its role. An apostrophe is ignored, so "don't" is one
// word.
func classify(r rune) (folded rune, class int) {
	switch r = text.Narrow(r); {
	case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
		return r, inWord
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A', inWord
	case r == '\'' || r == '’':
		return r, ignored
	case r < utf8.RuneSelf && !strings.ContainsRune("$+<=>|~", r) || r == utf8.RuneError:
		return r, separator
	case text.Invisible(r):
		return r, ignored
	case text.InWord(r):
		return text.Fold(r), inWord
	case unicode.In(r, unicode.Sm, unicode.Sc, unicode.So):
		return r, symbol
	}
	return r, separator
}

// set has the elements of a set in ascending order. An element is the hash of a word, or it encodes three characters.
type set []uint64

// wordsOf returns the words of a normalized text.
func wordsOf(normalized string) (s set) {
	for word := range strings.FieldsSeq(normalized) {
		s = append(s, text.Hash(word))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// gramsOf returns each three neighbouring characters of a text. A space before and after the text marks its ends, so that even one letter gives
// three characters.
func gramsOf(normalized string) set {
	if normalized == "" {
		return nil
	}
	const bitsOfRune = 21
	const mask = 1<<(3*bitsOfRune) - 1 // the last three characters
	s := make(set, 0, len(normalized)+1)
	key := uint64(' ')
	for i, r := range normalized {
		key = (key<<bitsOfRune | uint64(r)) & mask
		if i > 0 { // before, the key has only the space and one character
			s = append(s, key)
		}
	}
	s = append(s, (key<<bitsOfRune|' ')&mask)
	slices.Sort(s)
	return slices.Compact(s)
}

// similarity returns the Jaccard index of two sets.
func (s set) similarity(other set) float64 {
	shared := 0
	for i, j := 0, 0; i < len(s) && j < len(other); {
		switch {
		case s[i] < other[j]:
			i++
		case s[i] > other[j]:
			j++
		default:
			shared++
			i++
			j++
		}
	}
	if shared == 0 {
		return 0
	}
	return float64(shared) / float64(len(s)+len(other)-shared)
}
