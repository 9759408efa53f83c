// Package redact replaces credentials in text with a visible mark, such as "[redacted: github token]", before the text
// is stored or shown to a model. It is applied where payloads enter: to every event that is published or taken up, to
// requests of outside agents, and to what the windows keep (Fields).
//
// It finds keys of known shape (shapes.go), blocks and headers (blocks.go) and values that are assigned to a name that
// says what they are (assignments.go). It guesses by no entropy: hashes, ids and encoded images stay as they are. What is
// a secret by nothing but agreement, such as a password in the middle of a sentence, it does not see.
//
// A text is walked once. Whatever is looked at besides, ahead or behind, is bounded, so the time is linear for hostile
// text too. Text without secrets is returned as it is, and nothing is allocated.
package redact

import "strings"

// A mark stands where a secret was: its kind in lower case letters and spaces, between these.
const (
	markBegin = "[redacted: "
	markEnd   = ']'
	maxKind   = 32 // bytes of a kind
)

// MaxGrowth is how many times as long as it was a text can become.
const MaxGrowth = 6

// Text is s with a mark in the place of each secret. Text of what it returned changes nothing more, and what was valid
// UTF-8 stays so.
func Text(s string) string {
	sc := scanner{s: s}
	sc.scan()
	if sc.kept == 0 {
		return s
	}
	sc.out.WriteString(s[sc.kept:])
	return sc.out.String()
}

// Kind names the first secret in s, such as "github token", or is empty where Text would leave s as it is.
func Kind(s string) string {
	sc := scanner{s: s, looking: true}
	sc.scan()
	return sc.kind
}

// Marked reports whether something was replaced in s.
func Marked(s string) bool { return strings.Contains(s, markBegin) }

// scanner walks a text. What lies before floor is done with: marks, and what was replaced.
type scanner struct {
	s     string
	out   strings.Builder
	kept  int // s up to here is in out
	floor int
	// Where the last value without quotes ended, so that those which begin within it are not walked again; and where the
	// next end of a private key is, -1 where there is none.
	unquoted, pem int

	looking bool   // replaces nothing and ends with the first secret
	kind    string // of that
}

// replace has a secret, s[from:to], replaced.
func (sc *scanner) replace(from, to int, kind string) int {
	if sc.looking {
		sc.kind = kind
		return len(sc.s)
	}
	sc.out.WriteString(sc.s[sc.kept:from])
	sc.out.WriteString(markBegin)
	sc.out.WriteString(kind)
	sc.out.WriteByte(markEnd)
	sc.kept, sc.floor = to, to
	count(kind)
	return to
}

// What a byte can begin. A word is what a key of known shape may be part of; one in the middle of a longer word is none.
const (
	word     = 1 << iota
	starter  // may begin a shape, at the beginning of a word
	relation // stands between a name and its value
	special  // a mark, a block, an escaped line break
)

var classes = func() (t [256]uint8) {
	for c := range t {
		if isAlnum(byte(c)) || c == '_' || c == '-' {
			t[c] |= word
		}
		if len(shapesBy[c]) > 0 || c >= '0' && c <= '9' {
			t[c] |= starter
		}
	}
	t['='] |= relation
	t[':'] |= relation
	t['['] |= special
	t['\\'] |= special
	t['-'] |= special
	return t
}()

func (sc *scanner) scan() {
	s := sc.s
	for i := 0; i < len(s); {
		class := classes[s[i]]
		next := i
		switch {
		case class&special != 0:
			next = sc.special(i)
		case class&relation != 0:
			next = sc.assignment(i)
		case class&starter != 0 && likely(s[i:]):
			next = sc.shape(i)
		}
		if next > i { // replaced, or to be left alone
			i = next
			continue
		}
		for i++; class&word != 0 && i < len(s); i++ { // to the end of the word
			class = classes[s[i]]
			if class&word == 0 {
				break
			}
		}
	}
}

// special looks at a mark, at an escaped line break, which ends a word though it ends in a letter, and at the first dash
// of a block.
func (sc *scanner) special(i int) int {
	s := sc.s
	switch s[i] {
	case '[':
		if n := markAt(s[i:]); n > 0 {
			sc.floor = i + n
			return i + n
		}
	case '\\':
		if i+1 < len(s) && (s[i+1] == 'n' || s[i+1] == 't' || s[i+1] == 'r') {
			return i + 2
		}
	case '-':
		return sc.block(i)
	}
	return i
}

// markAt is the length of the mark that s begins with, 0 if it begins with none.
func markAt(s string) int {
	if !strings.HasPrefix(s, markBegin) {
		return 0
	}
	for i := len(markBegin); i < len(s) && i <= len(markBegin)+maxKind; i++ {
		switch c := s[i]; {
		case c == markEnd:
			return i + 1
		case c != ' ' && (c < 'a' || c > 'z'):
			return 0
		}
	}
	return 0
}

func isAlnum(c byte) bool { return isLetter(c) || isDigit(c) }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func isLetter(c byte) bool { return isUpper(c) || isLower(c) }
func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
