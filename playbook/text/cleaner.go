package text

import (
	"bytes"
	"cmp"
	"maps"
	"unicode"
	"unicode/utf8"
)

// maxSkipped is the maximum number of bytes that a Cleaner reads in addition to those that fit into the line. It bounds the cost of a long run
// of white space.
const maxSkipped = 4 << 10

// Cleaner makes single lines of text that is not trusted, such as the output of a tool. It is safe for concurrent use.
type Cleaner struct {
	replacements map[rune]rune
	ascii        [utf8.RuneSelf]rune // result of clean for each ASCII character, because most texts are ASCII
}

// NewCleaner returns a Cleaner that replaces characters. A full-width form of a replaced character is replaced too.
func NewCleaner(replacements map[rune]rune) *Cleaner {
	c := &Cleaner{replacements: maps.Clone(replacements)}
	for i := range c.ascii {
		c.ascii[i] = c.clean(rune(i))
	}
	return c
}

// clean returns the character that replaces r, a space for white space, or 0 to remove r.
func (c *Cleaner) clean(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case !unicode.IsPrint(r) || r == utf8.RuneError || unicode.Is(unicode.Variation_Selector, r):
		return 0
	}
	return cmp.Or(c.replacements[r], c.replacements[Narrow(r)], r)
}

// Line returns the beginning of s as one line of at most limit characters. An [Ellipsis] is the last of them if text is
// missing. White space becomes single spaces. Control characters, invisible characters and invalid bytes are removed. Unlike the
// function [Line], it also removes the joiners U+200C and U+200D, and it counts characters. The result shares no
// memory with s.
func (c *Cleaner) Line(s string, limit int) string {
	limit = max(limit, 0)
	missing := false
	if maxBytes := limit*utf8.UTFMax + maxSkipped; len(s) > maxBytes {
		s, missing = s[:maxBytes], true
	}
	line := make([]byte, 0, min(len(s), limit+len(Ellipsis)))
	n := 0      // characters in line
	spaces := 0 // 1 if a space must come before the next character, else 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			r = c.ascii[r]
		} else {
			r = c.clean(r)
		}
		if r == ' ' {
			spaces = min(n, 1)
		}
		if r == ' ' || r == 0 {
			continue
		}
		if n+spaces+1 > limit {
			missing = true
			break
		}
		n += spaces + 1
		if spaces > 0 {
			line = append(line, ' ')
			spaces = 0
		}
		line = utf8.AppendRune(line, r)
	}
	switch {
	case !missing:
		return string(line)
	case limit == 0:
		return ""
	case n == limit: // the ellipsis takes the place of the last character
		_, size := utf8.DecodeLastRune(line)
		line = bytes.TrimRight(line[:len(line)-size], " ")
	}
	return string(append(line, Ellipsis...))
}

// quotable replaces the characters that could end a quotation or imitate a placeholder.
var quotable = NewCleaner(map[rune]rune{'`': '\'', '"': '\'', '“': '\'', '”': '\'', '{': '(', '}': ')'})

// Quotable returns the beginning of s as [Cleaner.Line] does, for a quotation in a sentence: backticks and double
// quotes become single quotes, and braces become parentheses.
func Quotable(s string, limit int) string { return quotable.Line(s, limit) }
