package text

import (
	"bytes"
	"maps"
	"unicode"
	"unicode/utf8"
)

// maxSkipped is the number of bytes that a Cleaner reads at most beyond those that fit, so that a long run of white
// space costs little.
const maxSkipped = 4 << 10

// Cleaner makes lines of text that is not trusted, such as the output of a tool. It is safe for concurrent use.
type Cleaner struct {
	ascii [utf8.RuneSelf]byte // the replacement of each ASCII character; 0 removes the character
	other map[rune]rune       // all replacements, also of and by other characters
}

// NewCleaner returns a Cleaner that replaces characters. A full-width form of a replaced character is replaced too.
func NewCleaner(replace map[rune]rune) *Cleaner {
	c := &Cleaner{other: maps.Clone(replace)}
	for i := range c.ascii {
		switch r := rune(i); {
		case unicode.IsSpace(r):
			c.ascii[i] = ' '
		case !unicode.IsPrint(r):
		case replace[r] == 0:
			c.ascii[i] = byte(i)
		case replace[r] < utf8.RuneSelf:
			c.ascii[i] = byte(replace[r])
		default:
			c.ascii[i] = utf8.RuneSelf // see other
		}
	}
	return c
}

// Line returns the beginning of s as one line of at most limit characters. An [Ellipsis] is the last of them if text is
// missing. White space becomes single spaces. Control characters, invisible characters and invalid bytes are removed. Unlike the
// function [Line], it also removes the joiners U+200C and U+200D, and it counts characters. The result shares no
// memory with s.
func (c *Cleaner) Line(s string, limit int) string {
	limit = max(limit, 0)
	missing := false
	if most := limit*utf8.UTFMax + maxSkipped; len(s) > most {
		s, missing = s[:most], true
	}
	b := make([]byte, 0, min(len(s), limit+len(Ellipsis)))
	n := 0     // characters in b
	space := 0 // 1 if a space must come before the next character
	for i := 0; i < len(s); {
		out := rune(0)
		if first := s[i]; first < utf8.RuneSelf {
			out = rune(c.ascii[first])
			if out == utf8.RuneSelf {
				out = c.other[rune(first)]
			}
			i++
		} else {
			r, size := utf8.DecodeRuneInString(s[i:])
			out = c.replaceWide(r)
			i += size
		}
		switch {
		case out == ' ':
			space = min(n, 1)
			continue
		case out == 0:
			continue
		}
		if n+space+1 > limit {
			missing = true
			break
		}
		n += space + 1
		if space > 0 {
			b = append(b, ' ')
		}
		space = 0
		if out < utf8.RuneSelf {
			b = append(b, byte(out))
		} else {
			b = utf8.AppendRune(b, out)
		}
	}
	switch {
	case !missing:
		return string(b)
	case limit == 0:
		return ""
	case n == limit: // the ellipsis takes the place of the last character
		_, size := utf8.DecodeLastRune(b)
		b = bytes.TrimRight(b[:len(b)-size], " ")
	}
	return string(append(b, Ellipsis...))
}

// replaceWide returns the replacement of a character that is not ASCII, and 0 to remove it.
func (c *Cleaner) replaceWide(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case !unicode.IsPrint(r) || r == utf8.RuneError || unicode.Is(unicode.Variation_Selector, r):
		return 0
	}
	if out := c.other[r]; out != 0 {
		return out
	}
	if out := c.other[Narrow(r)]; out != 0 {
		return out
	}
	return r
}

// quotable removes what could end a quotation or imitate a placeholder.
var quotable = NewCleaner(map[rune]rune{'`': '\'', '"': '\'', '“': '\'', '”': '\'', '{': '(', '}': ')'})

// Quotable returns the beginning of s as [Cleaner.Line] does, for a quotation in a sentence: backticks and double
// quotes become single quotes, and braces become parentheses.
func Quotable(s string, limit int) string { return quotable.Line(s, limit) }
