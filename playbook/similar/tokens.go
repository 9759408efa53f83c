package similar

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// normalize returns the words and symbols of a text in lower case, separated by single spaces, or "" if it has none.
// A word is a run of letters, marks and numbers, as in text.Words. Unlike there, a text in a script without spaces is not split.
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

// Classes of a character in normalize.
const (
	separator = iota
	inWord    // part of a word
	symbol    // a word by itself
	ignored
)

// classify returns a character without case and width, and its class. An apostrophe is ignored, so "don't" is one
// word.
func classify(r rune) (folded rune, class int) {
	switch r = text.Narrow(r); {
	case r == '\'' || r == '’' || text.Invisible(r):
		return r, ignored
	case text.InWord(r):
		return text.Fold(r), inWord
	case r != utf8.RuneError && unicode.In(r, unicode.Sm, unicode.Sc, unicode.So):
		return r, symbol
	}
	return r, separator
}

// set is a set of words or of groups of three characters, in ascending order. An element is the hash of a word, or the code points of three characters.
type set []uint64

// wordsOf returns the words of a normalized text.
func wordsOf(normalized string) (s set) {
	for word := range strings.FieldsSeq(normalized) {
		s = append(s, text.Hash(word))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

// gramsOf returns the groups of three neighbouring characters of a normalized text. A space is added before and after the text, so that even
// a single letter gives a group.
func gramsOf(normalized string) set {
	if normalized == "" {
		return nil
	}
	const bitsOfRune = 21
	const mask = 1<<(3*bitsOfRune) - 1 // of three characters
	s := make(set, 0, len(normalized)+1)
	key := uint64(' ') // the last three characters
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
