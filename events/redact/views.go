package redact

import (
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the maximum number of decoded levels of escapes. URL-encoded JSON in a JSON string in a JSON string
// has four.
const maxDepth = 4

// view is a text with one level of escapes decoded: %3D, \n, \", \u003d, \x3d. Secrets in a view are replaced in
// the original.
type view struct {
	text  string
	from  *view // the view that it was decoded from; nil if it was decoded from the original
	depth int
	// offsets are the positions after escapes, in order: byte "at" of text is byte "origin" of the text it was
	// decoded from. The distance is the same for the bytes up to the next entry.
	offsets []offset
}

type offset struct{ at, origin int }

// origin returns the position in the original of byte i.
func (v *view) origin(i int) int {
	for ; v != nil; v = v.from {
		if k := sort.Search(len(v.offsets), func(k int) bool { return v.offsets[k].at > i }); k > 0 {
			i += v.offsets[k-1].origin - v.offsets[k-1].at
		}
	}
	return i
}

// decoded returns a view of s, which is the text of from. It is nil if s has no escapes or has reached maxDepth.
func decoded(s string, from *view) *view {
	if from != nil && from.depth == maxDepth || !hasEscapes(s) {
		return nil
	}
	d := decoder{s: s}
	v := &view{from: from, depth: 1}
	if from != nil {
		v.depth += from.depth
	}
	var out strings.Builder
	var buf [utf8.UTFMax]byte
	out.Grow(len(s))
	done := 0
	for i := d.next(0); i < len(s); i = d.next(i) {
		c, n := d.escape(i)
		out.WriteString(s[done:i])
		if n <= len(`\x3d`) { // one byte, possibly a part of a longer character
			out.WriteByte(byte(c))
		} else {
			out.Write(buf[:utf8.EncodeRune(buf[:], c)])
		}
		i += n
		done = i
		v.offsets = append(v.offsets, offset{out.Len(), i})
	}
	out.WriteString(s[done:])
	v.text = out.String()
	return v
}

// hasEscapes reports whether s has an escape that the scanner does not handle itself. The scanner handles \" and \n.
func hasEscapes(s string) bool {
	if hasURLEscape(s) {
		return true
	}
	for i := strings.IndexByte(s, '\\'); i >= 0 && i+1 < len(s); {
		switch s[i+1] {
		case '"', '\'', 'n', 'r', 't':
		default:
			if _, n := escape(s[i:]); n > 0 {
				return true
			}
		}
		next := strings.IndexByte(s[i+2:], '\\')
		if next < 0 {
			return false
		}
		i += 2 + next
	}
	return false
}

// decoder finds the escapes of a text.
type decoder struct {
	s       string
	wordEnd int  // end of the last word with a plus sign that was examined
	isForm  bool // plus signs are spaces in that word
}

// next returns the position of the next escape from i on, or the length of the text.
func (d *decoder) next(i int) int {
	for ; i < len(d.s); i++ {
		if c := d.s[i]; c == '\\' || c == '%' || c == '+' {
			if _, n := d.escape(i); n > 0 {
				return i
			}
		}
	}
	return i
}

func (d *decoder) escape(i int) (c rune, n int) {
	if d.s[i] != '+' {
		return escape(d.s[i:])
	}
	if d.inForm(i) {
		return ' ', 1
	}
	return 0, 0
}

// inForm reports whether the word around the plus sign at i has the URL encoding of a form: it has other escapes,
// but not %20. Calls have increasing positions.
func (d *decoder) inForm(i int) bool {
	if i < d.wordEnd { // in the same word as the plus sign before
		return d.isForm
	}
	begin, end := i, i
	for begin > d.wordEnd && !wordEnds[d.s[begin-1]] {
		begin--
	}
	for end < len(d.s) && !wordEnds[d.s[end]] {
		end++
	}
	word := d.s[begin:end]
	d.wordEnd = end
	d.isForm = hasURLEscape(word) && !strings.Contains(word, "%20")
	return d.isForm
}

// hasURLEscape reports whether s has a URL escape, such as %3D.
func hasURLEscape(s string) bool {
	for {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			return false
		}
		if _, n := escape(s[i:]); n > 0 {
			return true
		}
		s = s[i+1:]
	}
}

var wordEnds = alphabetOf(" \t\r\n\"'`<>\\")

// escape returns the character of the escape at the start of s, and the length of the escape. The length is 0 if s
// does not begin with an escape.
func escape(s string) (c rune, n int) {
	if s[0] == '%' {
		if c, ok := hexAt(s, 1, 2); ok {
			return c, 3
		}
		return 0, 0
	}
	if len(s) < 2 {
		return 0, 0
	}
	switch s[1] {
	case '"', '\\', '/', '\'':
		return rune(s[1]), 2
	case 'n', 'r':
		return '\n', 2
	case 't', 'b', 'f':
		return ' ', 2
	case 'x':
		if c, ok := hexAt(s, 2, 2); ok {
			return c, 4
		}
	case 'u':
		c, ok := hexAt(s, 2, 4)
		if !ok {
			return 0, 0
		}
		low, ok := hexAt(s, 8, 4)
		if ok && utf16.IsSurrogate(c) && s[6:8] == `\u` {
			if both := utf16.DecodeRune(c, low); both != utf8.RuneError {
				return both, 12
			}
		}
		return c, 6
	}
	return 0, 0
}

// hexAt returns the value of the hexadecimal number s[i:i+n].
func hexAt(s string, i, n int) (c rune, ok bool) {
	if len(s) < i+n {
		return 0, false
	}
	for _, d := range []byte(s[i : i+n]) {
		switch {
		case isDigit(d):
			c = c<<4 | rune(d-'0')
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			c = c<<4 | rune(d|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return c, true
}
