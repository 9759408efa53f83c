// Package redact replaces credentials in text with a visible mark, such as "[redacted: github token]", before the text
// is stored or shown to a model. It is applied where payloads enter: to every event that is published or handled, to
// requests of outside agents, and to the values of the windows (Fields).
//
// It finds keys of known shape (shapes.go), private keys (blocks.go) and values that are assigned to the name of
// a secret (assignments.go). It finds them in plain text and behind URL encoding (%3D), JSON escapes (\", \u003d) and
// both nested up to four deep (views.go), and in base64 (base64.go). It keeps valid JSON valid.
//
// Not covered: hex, other encodings and encryption; base64 of a text in which nothing is found; numbers in JSON; secrets that only
// people can recognize, such as a password in the middle of a sentence. Entropy is not used: hashes, ids and encoded images
// stay.
//
// Everything that is looked at ahead or behind is bounded, so the time is linear for hostile text too. Text without
// secrets and escapes is returned unchanged, and nothing is allocated.
package redact

import (
	"cmp"
	"slices"
	"strings"
)

// A mark replaces a secret: its kind in lower case letters and spaces, between these.
const (
	markBegin = "[redacted: "
	markEnd   = ']'
	maxKind   = 32 // bytes of a kind
)

// MaxGrowth is how many times as long as it was a text can become.
const MaxGrowth = 6

// edit replaces text[from:to] with the mark of a kind.
type edit struct {
	from, to int
	kind     string
}

// Text returns s with a mark in the place of each secret. Text of its result changes nothing more. Valid UTF-8 stays valid,
// and valid JSON too.
func Text(s string) string {
	edits := find(s, false)
	if len(edits) == 0 {
		return s
	}
	edits = keepJSON(s, merge(edits))
	var out strings.Builder
	done := 0
	for _, e := range edits {
		out.WriteString(s[done:e.from])
		out.WriteString(markBegin)
		out.WriteString(e.kind)
		out.WriteByte(markEnd)
		done = e.to
		count(e.kind)
	}
	out.WriteString(s[done:])
	return out.String()
}

// Kind names a secret in s, such as "github token". It is empty where Text returns s unchanged.
func Kind(s string) string {
	if edits := find(s, true); len(edits) > 0 {
		return edits[0].kind
	}
	return ""
}

// Marked reports whether something was replaced in s.
func Marked(s string) bool { return strings.Contains(s, markBegin) }

// find returns the secrets of s, in no order and with overlaps. With first it ends at one.
func find(s string, first bool) []edit {
	edits := scan(scanner{s: s, first: first})
	for v := decoded(s, nil); v != nil && !(first && len(edits) > 0); v = decoded(v.text, v) {
		for _, e := range scan(scanner{s: v.text, first: first, deepest: v.depth == maxDepth}) {
			edits = append(edits, edit{v.origin(e.from), v.origin(e.to), e.kind})
		}
	}
	return edits
}

// scan returns the secrets of a text that are visible without decoding escapes.
func scan(sc scanner) []edit {
	sc.scan()
	if !sc.first || len(sc.edits) == 0 {
		sc.base64()
	}
	return sc.edits
}

// merge sorts edits and joins those that overlap.
func merge(edits []edit) []edit {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out := edits[:1]
	for _, e := range edits[1:] {
		if last := &out[len(out)-1]; e.from < last.to {
			last.to = max(last.to, e.to)
			continue
		}
		out = append(out, e)
	}
	return out
}

// scanner walks a text once. What lies before floor is done: marks, and secrets that were found.
type scanner struct {
	s     string
	edits []edit
	floor int
	// Where the last value without quotes ended, so that those which begin within it are not walked again; and where the
	// next end of a private key is, -1 where there is none.
	unquoted, pem int

	first   bool // end with the first secret
	deepest bool // escapes in it are not decoded any more
}

// replace records a secret, s[from:to]. It returns where the walk goes on.
func (sc *scanner) replace(from, to int, kind string) int {
	sc.edits = append(sc.edits, edit{from, to, kind})
	sc.floor = to
	if sc.first {
		return len(sc.s)
	}
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
