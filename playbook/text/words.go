package text

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words yields the words of a text, in order. A word is a run of letters, marks and numbers, as in s: it is neither
// folded nor stemmed. Each [Unspaced] character is a word.
func Words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := -1 // of the current word, or -1
		for i, r := range s {
			var inWord, isUnspaced bool
			if r < utf8.RuneSelf { // most characters
				inWord = asciiWord[r]
			} else {
				isUnspaced = Unspaced(r)
				inWord = !isUnspaced && InWord(r)
			}
			if inWord {
				if start < 0 {
					start = i
				}
				continue
			}
			if start >= 0 && !yield(s[start:i]) {
				return
			}
			start = -1
			if isUnspaced && !yield(s[i:i+utf8.RuneLen(r)]) {
				return
			}
		}
		if start >= 0 {
			yield(s[start:])
		}
	}
}

// NameWords yields the words of a name in lower case, such as "read" and "file" for readFile, read_file and "read-file". Words consist of
// letters; digits separate them.
func NameWords(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for letters := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) }) {
			for part := range Parts(letters) {
				if !yield(strings.ToLower(part)) {
					return
				}
			}
		}
	}
}

// Parts yields the parts of a word such as "readFile": a capital after a small letter begins a new part.
func Parts(word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start, wasLower := 0, false
		for i, r := range word {
			if wasLower && unicode.IsUpper(r) {
				if !yield(word[start:i]) {
					return
				}
				start = i
			}
			wasLower = unicode.IsLower(r)
		}
		if start < len(word) {
			yield(word[start:])
		}
	}
}

// InWord reports whether a character is a letter, a mark or a number.
func InWord(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 0 && asciiWord[r]
	}
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// asciiWord marks the ASCII letters and digits.
var asciiWord = func() (marks [utf8.RuneSelf]bool) {
	for c := range marks {
		marks[c] = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	return marks
}()

// Invisible reports whether a character changes only the form of its neighbours: soft hyphens, joiners, marks of
// direction and the variations of emoji.
func Invisible(r rune) bool {
	return r >= utf8.RuneSelf && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r))
}

// Hash returns a hash of a word that ignores case and width: FNV-1a over the folded characters. It is not stable
// across versions and not safe against chosen collisions.
func Hash(word string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, r := range word {
		h = (h ^ uint64(Fold(r))) * prime
	}
	return h
}

// IsCommon reports whether an English word in lower case is so common that it carries no topic.
func IsCommon(word string) bool { return commonWords[word] }

var commonWords = Set(`a about after again all also an and another any are around as at be because been before being both but by can cannot
	could d did didn do does doesn doing don done down each either ever every few for from further get give go got had has have having he
	her here hers him his how i if in into is isn it its itself just ll let like m made make many may me might more most much must my need no
	nor not now of off ok on once one only or other our out over own please put re s same shall she should show since so some such sure t take
	than thank thanks that the their them then there these they thing this those through time to too try under until up use used using ve very
	want wants was way we well were what when where whether which while who whom why will with within without would yes yet you your yours`)
