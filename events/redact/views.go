package redact

import (
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how many layers of escapes are decoded: JSON in a string of JSON in a string, URL-encoded, is four.
const maxDepth = 4

// view is a text with one layer of escapes decoded: %3D, \n, \", \u003d, \x3d. A secret found in it is replaced in the
// original.
type view struct {
	text  string
	from  *view // the view that it was decoded from, nil for the original
	depth int
	// jumps are the places behind escapes, in order: byte "at" of the text is byte "origin" of the text that it was
	// decoded from, and so on up to the next jump.
	jumps []jump
}

type jump struct{ at, origin int }

// origin is where the byte at i stands in the original.
func (v *view) origin(i int) int {
	for ; v != nil; v = v.from {
		if k := sort.Search(len(v.jumps), func(k int) bool { return v.jumps[k].at > i }); k > 0 {
			i += v.jumps[k-1].origin - v.jumps[k-1].at
		}
	}
	return i
}

// decoded is a view of s, which is the text of from. It is nil where s has no escapes or is too deep.
func decoded(s string, from *view) *view {
	if from != nil && from.depth == maxDepth || !hides(s) {
		return nil
	}
	d := decoder{s: s, spaces: strings.IndexByte(s, '+') >= 0}
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
		if n <= 4 { // of a byte, which may be part of a longer character
			out.WriteByte(byte(c))
		} else {
			out.Write(buf[:utf8.EncodeRune(buf[:], c)])
		}
		i += n
		done = i
		v.jumps = append(v.jumps, jump{out.Len(), i})
	}
	out.WriteString(s[done:])
	v.text = out.String()
	return v
}

// hides reports whether s has an escape that the scanner does not understand by itself, as it does \" and \n.
func hides(s string) bool {
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
	s        string
	spaces   bool // it has a plus sign
	from, to int  // the word that was last looked at for plus signs,
	form     bool // and whether they are spaces in it
}

// next returns the place of the next escape from i on, or the length of the text.
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
	if d.spaces && d.inForm(i) {
		return ' ', 1
	}
	return 0, 0
}

// inForm reports whether the word around the plus sign at i is URL-encoded as a form is: other escapes, and no %20.
func (d *decoder) inForm(i int) bool {
	if i < d.from || i >= d.to {
		for d.from = i; d.from > d.to && !wordEnds[d.s[d.from-1]]; d.from-- {
		}
		for d.to = i; d.to < len(d.s) && !wordEnds[d.s[d.to]]; d.to++ {
		}
		word := d.s[d.from:d.to]
		d.form = hasURLEscape(word) && !strings.Contains(word, "%20")
	}
	return d.form
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

// escape is the character that the escape at the beginning of s stands for, and its length. A length of 0 means that s does
// not begin with an escape.
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
		if low, ok := hexAt(s, 8, 4); ok && utf16.IsSurrogate(c) && s[6] == '\\' && s[7] == 'u' {
			if both := utf16.DecodeRune(c, low); both != utf8.RuneError {
				return both, 12
			}
		}
		return c, 6
	}
	return 0, 0
}

// hexAt is the number that s[i:i+n] is in hexadecimal.
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
