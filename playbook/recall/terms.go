package recall

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestTerm, in bytes. Of what is longer, such as a line of base64, the beginning is a term and its parts are none.
const longestTerm = 64

// eachTerm calls emit with the terms of a text in order; a term is good until emit returns. Terms are
//
//   - words in lower case and without the commonest English endings; the smallest English words are none
//   - the parts of identifiers, and the parts put together: "getUserID" and "get_user_id" both are get, user, id and
//     getuserid
//   - numbers: "1,000" is 1000, "2.5" is itself
//   - pairs of neighbouring characters where a script has no spaces between words
//
// It reads the text once.
func eachTerm(text string, emit func(term []byte)) {
	s := splitter{emit: emit, word: make([]byte, 0, longestTerm+utf8.UTFMax)}
	for at, r := range text {
		s.read(r, text, at)
	}
	s.end()
	s.endPairs()
}

// What a character is to a term.
type class uint8

const (
	gap     class = iota
	nothing       // an apostrophe, a soft hyphen: as if it were not there
	joint         // an underscore
	lower         // a letter, also one without case, or a mark
	upper
	digit
	dense // a character of a script without spaces
)

func classify(r rune) (folded rune, c class) {
	if r >= 0xff01 && r <= 0xff5e {
		r -= 0xff01 - '!' // the full-width forms of ASCII
	}
	switch {
	case r >= 'a' && r <= 'z':
		return r, lower
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A', upper
	case r >= '0' && r <= '9':
		return r, digit
	case r == '_':
		return r, joint
	case r == '\'' || r == '’':
		return r, nothing
	case r < utf8.RuneSelf || r == utf8.RuneError:
		return r, gap
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return r, dense
	case unicode.Is(unicode.Cf, r):
		return r, nothing
	case unicode.IsUpper(r):
		return unicode.ToLower(r), upper
	case unicode.In(r, unicode.L, unicode.M):
		return unicode.ToLower(unicode.ToUpper(r)), lower // by way of the capital: ς and σ have the same
	case unicode.Is(unicode.N, r):
		return r, digit
	}
	return r, gap
}

// splitter reads a text and emits its terms.
type splitter struct {
	emit func([]byte)

	word    []byte // so far, in lower case
	parts   []int  // where in it a new part of an identifier begins, ascending
	last    int    // where its last character begins
	was     class  // of its last character
	joined  bool   // there was an underscore behind it
	number  bool   // it is all digits and points
	clipped bool   // it is longer than a term

	before rune // the character before this one, of a script without spaces; 0 if it is of none
	paired bool // it is in a pair already
}

func (s *splitter) read(r rune, text string, at int) {
	folded, c := classify(r)
	if c == dense {
		s.end()
		if s.before != 0 {
			s.pair(s.before, folded)
		}
		s.before, s.paired = folded, s.before != 0
		return
	}
	s.endPairs()
	switch c {
	case nothing:
	case joint:
		s.joined = len(s.word) > 0
		s.number = false
	case gap:
		if s.number && !s.joined && (r == '.' || r == ',') {
			switch digits := leadingDigits(text[at+1:]); {
			case r == '.' && digits > 0:
				s.add('.', digit)
				return
			case r == ',' && digits == 3:
				return
			}
		}
		s.end()
	default:
		s.letter(folded, c)
	}
}

// leadingDigits counts them, up to 4.
func leadingDigits(text string) (n int) {
	for n < min(len(text), 4) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

// letter adds a letter or digit to the word and notes where a part of an identifier begins: behind an underscore, at the
// I of userID, at the S of HTTPServer.
func (s *splitter) letter(r rune, c class) {
	switch {
	case len(s.word) == 0:
		s.number = c == digit
	case s.joined || c == upper && s.was != upper:
		s.parts = append(s.parts, len(s.word))
	case c == lower && s.was == upper && s.last > 0 && (len(s.parts) == 0 || s.parts[len(s.parts)-1] < s.last):
		s.parts = append(s.parts, s.last)
	}
	s.number = s.number && c == digit
	s.joined = false
	s.add(r, c)
}

func (s *splitter) add(r rune, c class) {
	if len(s.word) >= longestTerm {
		s.clipped, s.parts = true, s.parts[:0]
		return
	}
	s.last, s.was = len(s.word), c
	s.word = utf8.AppendRune(s.word, r)
}

// end emits the word that ends here, if there is one.
func (s *splitter) end() {
	if len(s.word) > 0 {
		switch {
		case s.clipped || s.number:
			s.emit(s.word)
		case len(s.parts) == 0:
			s.plain(s.word)
		default:
			s.emit(s.word)
			from := 0
			for _, to := range append(s.parts, len(s.word)) {
				s.plain(s.word[from:to:to])
				from = to
			}
		}
	}
	s.word, s.parts, s.joined, s.number, s.clipped = s.word[:0], s.parts[:0], false, false, false
}

// plain emits a word of a language, unless it is a small one.
func (s *splitter) plain(word []byte) {
	if !small[string(word)] {
		s.emit(stem(word))
	}
}

func (s *splitter) pair(a, b rune) {
	var buf [2 * utf8.UTFMax]byte
	s.emit(utf8.AppendRune(utf8.AppendRune(buf[:0], a), b))
}

// endPairs emits a character of a script without spaces that stands alone.
func (s *splitter) endPairs() {
	if s.before != 0 && !s.paired {
		var buf [utf8.UTFMax]byte
		s.emit(utf8.AppendRune(buf[:0], s.before))
	}
	s.before = 0
}

// small words are in most texts and in most questions, and tell none from another. Negations are not among them.
var small = func() map[string]bool {
	set := make(map[string]bool)
	for _, word := range strings.Fields(`a an the this that these those it its there here
		is are was were be been being am do does did has have had will would shall should can could may might must
		and or but if then than so as of to in on at for with from by into about
		i me my we us our you your he him his she her they them their
		what which who whom whose when where why how`) {
		set[word] = true
	}
	return set
}()

// stem takes the endings of plurals and verbs off an English word: much of step 1 of Porter, "An algorithm for suffix
// stripping" (1980). All that is left of "price", "prices", "priced" and "pricing" is "pric": a last e and the second of
// two last consonants go, too. Other words stay as they are.
func stem(w []byte) []byte {
	for _, c := range w {
		if c < 'a' || c > 'z' {
			return w
		}
	}
	ends := func(with string, left int) bool {
		return len(w) >= left+len(with) && string(w[len(w)-len(with):]) == with
	}
	cut := func(n int) { w = w[:len(w)-n] }
	switch {
	case ends("sses", 2):
		cut(2)
	case ends("ies", 2):
		cut(2)
		w[len(w)-1] = 'y'
	case ends("s", 3) && !ends("ss", 0) && !ends("us", 0) && !ends("is", 0):
		cut(1)
	}
	switch {
	case ends("ied", 2):
		cut(2)
		w[len(w)-1] = 'y'
	case ends("ed", 3) && !ends("eed", 0) && hasVowel(w[:len(w)-2]):
		cut(2)
	case ends("ing", 3) && hasVowel(w[:len(w)-3]):
		cut(3)
	}
	if ends("e", 3) && !ends("ee", 0) {
		cut(1)
	}
	if n := len(w); n > 3 && w[n-1] == w[n-2] && !isVowel(w[n-1]) {
		cut(1)
	}
	return w
}

func hasVowel(w []byte) bool {
	for _, c := range w {
		if isVowel(c) {
			return true
		}
	}
	return false
}

func isVowel(c byte) bool { return strings.IndexByte("aeiouy", c) >= 0 }
