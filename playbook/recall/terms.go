package recall

import (
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// maxTermBytes is the maximum size of a term. Of a longer word, such as a line of base64, only the beginning is a term.
const maxTermBytes = 64

// eachTerm calls emit with the terms of a text in order. A term is valid until emit returns. Terms are:
//
//   - words in lower case, without stop words and without the most common English endings; Arabic words without prefixes and suffixes
//   - identifiers as a whole and in parts: "getUserID" and "get_user_id" both give get, user, id and getuserid
//   - numbers: "1,000" is 1000, "2.5" stays 2.5
//   - pairs of neighbouring characters in scripts without spaces between words
//
// eachTerm reads the text once.
func eachTerm(input string, emit func(term []byte)) {
	s := splitter{emit: emit, word: make([]byte, 0, maxTermBytes+utf8.UTFMax)}
	for at, r := range input {
		s.next(r, input, at)
	}
	s.endWord()
	s.endPairs()
}

// class is the role of a character in a term.
type class uint8

const (
	separator class = iota
	ignored         // an apostrophe or a soft hyphen
	underscore
	lower // a lower-case letter, a letter without case, or a mark
	upper
	digit
	noSpaces // a character of a script without spaces
)

// classify returns a character without case and width, and its class.
func classify(r rune) (folded rune, c class) {
	switch r = text.Narrow(r); {
	case r >= 'a' && r <= 'z':
		return r, lower
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A', upper
	case r >= '0' && r <= '9':
		return r, digit
	case r == '_':
		return r, underscore
	case r == '\'' || r == '’':
		return r, ignored
	case r < utf8.RuneSelf || r == utf8.RuneError:
		return r, separator
	case isArabic(r):
		return classifyArabic(r)
	case text.Unspaced(r) || unicode.Is(unicode.Hangul, r): // Korean endings are not separate words
		return r, noSpaces
	case unicode.Is(unicode.Cf, r):
		return r, ignored
	case unicode.IsUpper(r):
		return text.Fold(r), upper
	case unicode.In(r, unicode.L, unicode.M):
		return text.Fold(r), lower
	case unicode.Is(unicode.N, r):
		return r, digit
	}
	return r, separator
}

// splitter splits a text into terms. At each time it is either in a word or in a run of characters of a script without spaces.
type splitter struct {
	emit func([]byte)

	word            []byte // the current word in lower case, empty outside a word
	parts           []int  // offsets in word of the second and later parts of an identifier, ascending
	lastAt          int    // offset in word of its last character
	lastClass       class  // class of its last character
	afterUnderscore bool   // an underscore follows the word
	number          bool   // the word consists of digits and points
	truncated       bool   // the word exceeds maxTermBytes: the rest is not in word
	arabic          bool   // the last character of the word is Arabic

	previous rune // the previous character of a script without spaces, 0 outside a run
	paired   bool // the previous character is already part of a pair
}

// next reads the character r of the input at an offset.
func (s *splitter) next(r rune, input string, at int) {
	folded, c := classify(r)
	if c == noSpaces {
		s.endWord()
		if s.previous != 0 {
			s.emitPair(s.previous, folded)
		}
		s.previous, s.paired = folded, s.previous != 0
		return
	}
	s.endPairs()
	bothHaveScript := c != ignored && c != digit && s.lastClass != digit
	if len(s.word) > 0 && bothHaveScript && isArabic(folded) != s.arabic {
		s.endWord() // an Arabic prefix is written together with a name in another script
	}
	switch c {
	case ignored:
	case underscore:
		s.afterUnderscore = len(s.word) > 0
		s.number = false
	case separator:
		if s.number && !s.afterUnderscore && (r == '.' || r == ',') {
			switch digits := leadingDigits(input[at+1:]); {
			case r == '.' && digits > 0: // a decimal point
				s.add('.', digit)
				return
			case r == ',' && digits == 3: // separates thousands, and is left out
				return
			}
		}
		s.endWord()
	default:
		s.arabic = isArabic(folded)
		s.addLetter(folded, c)
	}
}

// leadingDigits counts the digits at the beginning of a text, up to 4: more are not a group of thousands.
func leadingDigits(s string) (n int) {
	for n < min(len(s), 4) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// addLetter adds a letter or digit to the word. It records the beginning of each part of an identifier: after an
// underscore, at the I of userID, at the S of HTTPServer.
func (s *splitter) addLetter(r rune, c class) {
	lastPart := 0
	if n := len(s.parts); n > 0 {
		lastPart = s.parts[n-1]
	}
	switch {
	case len(s.word) == 0:
		s.number = c == digit
	case s.afterUnderscore || c == upper && s.lastClass != upper:
		s.parts = append(s.parts, len(s.word))
	case c == lower && s.lastClass == upper && s.lastAt > lastPart: // the capital before r begins a part
		s.parts = append(s.parts, s.lastAt)
	}
	s.number = s.number && c == digit
	s.afterUnderscore = false
	s.add(r, c)
}

// add appends a character to the word, unless the word is too long. A word that is too long has no parts.
func (s *splitter) add(r rune, c class) {
	if len(s.word) >= maxTermBytes {
		s.truncated, s.parts = true, s.parts[:0]
		return
	}
	s.lastAt, s.lastClass = len(s.word), c
	s.word = utf8.AppendRune(s.word, r)
}

// endWord emits the current word, if there is one.
func (s *splitter) endWord() {
	if len(s.word) > 0 {
		switch {
		case s.truncated || s.number:
			s.emit(s.word)
		case len(s.parts) == 0:
			s.emitWord(s.word)
		default:
			s.emit(s.word)
			from := 0
			for _, to := range append(s.parts, len(s.word)) {
				s.emitWord(s.word[from:to:to]) // with this capacity a stem cannot overwrite the next part
				from = to
			}
		}
	}
	s.word, s.parts = s.word[:0], s.parts[:0]
	s.afterUnderscore = false
	s.number = false
	s.truncated = false
}

// emitWord emits the stem of a word unless it is a stop word.
func (s *splitter) emitWord(word []byte) {
	if !stopWords[string(word)] {
		s.emit(text.Stem(stemArabic(word)))
	}
}

// emitPair emits two neighbouring characters of a script without spaces.
func (s *splitter) emitPair(a, b rune) {
	var buf [2 * utf8.UTFMax]byte
	s.emit(utf8.AppendRune(utf8.AppendRune(buf[:0], a), b))
}

// endPairs ends a run of characters of a script without spaces. A run of a single character has no pair, so endPairs emits the character itself.
func (s *splitter) endPairs() {
	if s.previous != 0 && !s.paired {
		var buf [utf8.UTFMax]byte
		s.emit(utf8.AppendRune(buf[:0], s.previous))
	}
	s.previous = 0
}

// stopWords occur in most texts and questions, so they distinguish none. Negations are not included.
var stopWords = text.Set(`a an the this that these those it its there here
	is are was were be been being am do does did has have had will would shall should can could may might must
	and or but if then than so as of to in on at for with from by into about
	i me my we us our you your he him his she her they them their
	what which who whom whose when where why how`)
