package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis marks a shortened text.
const Ellipsis = "…"

// Prefix returns the first bytes of s, at most limit, without a part of a character at the end.
func Prefix(s string, limit int) string {
	limit = max(limit, 0)
	if len(s) <= limit {
		return s
	}
	for end := limit; end >= 0 && end > limit-utf8.UTFMax; end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:limit] // not UTF-8
}

// Clip returns the first bytes of s, at most limit, and an [Ellipsis] if s is longer. The result is valid UTF-8: U+FFFD
// replaces invalid bytes.
func Clip(s string, limit int) string {
	limit = max(limit, 0)
	begin := s
	if len(s) > limit {
		begin = Prefix(s, limit+utf8.UTFMax) // U+FFFD may be longer or shorter than the invalid bytes
	}
	valid := strings.ToValidUTF8(begin, "\uFFFD")
	if len(valid) <= limit && len(begin) == len(s) {
		return valid
	}
	return Prefix(valid, limit) + Ellipsis
}

// Cut returns the first bytes of s, at most head, and the last ones, at most tail, without a part of a character where it cuts. If s has no
// more than head and tail together, first is s and last is empty.
func Cut(s string, head, tail int) (first, last string) {
	head, tail = max(head, 0), max(tail, 0)
	if len(s) <= head+tail {
		return s, ""
	}
	first, last = Prefix(s, head), s[len(s)-tail:]
	for n := 0; n < len(last) && n < utf8.UTFMax; n++ {
		if utf8.RuneStart(last[n]) {
			return first, last[n:]
		}
	}
	if len(last) < utf8.UTFMax {
		return first, "" // a part of a character
	}
	return first, last // not UTF-8
}

// Ends returns the beginning and the end of s, at most limit bytes, with an [Ellipsis] between them if s is longer. Tasks of one kind often
// begin with the same instructions, and their ends tell them apart. The result is valid UTF-8.
func Ends(s string, limit int) string {
	s = Valid(s)
	first, last := Cut(s, limit/2, limit-limit/2)
	if len(first) == len(s) {
		return s
	}
	return strings.TrimRightFunc(first, unicode.IsSpace) + " " + Ellipsis + " " + strings.TrimLeftFunc(last, unicode.IsSpace)
}

// Excerpt returns a text like [Clip], without the white space around it.
func Excerpt(s string, limit int) string { return Clip(strings.TrimSpace(s), limit) }

// Line returns the beginning of s as one line of at most limit bytes, and an [Ellipsis] if text is missing. White
// space and control characters become single spaces, U+FFFD replaces invalid bytes, and invisible characters are
// removed. So the result is valid in a header and cannot change the direction of the text after it. The joiners
// U+200C and U+200D stay, because they are parts of words and of emoji.
func Line(s string, limit int) string {
	if len(s) <= limit && isPlainLine(s) {
		return s
	}
	var b strings.Builder
	b.Grow(min(len(s), max(limit, 0)) + len(Ellipsis))
	space := false
	for len(s) > 0 {
		var r rune
		size := plainLen(s, limit-b.Len()+1)
		plain := size > 0 // the next part of s is words of visible ASCII; otherwise it is one character, r
		if !plain {
			r, size = utf8.DecodeRuneInString(s)
		}
		part := s[:size]
		s = s[size:]
		switch {
		case plain:
		case unicode.IsSpace(r) || unicode.IsControl(r):
			space = b.Len() > 0
			continue
		case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		if plain {
			b.WriteString(part)
		} else {
			b.WriteRune(r)
		}
		if b.Len() > limit {
			return strings.TrimRight(Prefix(b.String(), limit), " ") + Ellipsis
		}
	}
	return b.String()
}

// plainLen returns the length of the ASCII words with single spaces between them at the start of s, at most limit.
func plainLen(s string, limit int) int {
	for i := range min(len(s), max(limit, 1)) {
		isSingleSpace := s[i] == ' ' && i > 0 && i+1 < len(s) && isVisible(s[i+1])
		if !isSingleSpace && !isVisible(s[i]) {
			return i
		}
	}
	return min(len(s), max(limit, 1))
}

// isVisible reports whether a byte is a visible ASCII character.
func isVisible(c byte) bool { return c > ' ' && c <= '~' }

// isPlainLine reports whether a text is ASCII in one line with single spaces, like most texts.
func isPlainLine(s string) bool {
	last := byte(' ')
	for i := range len(s) {
		c := s[i]
		isSingleSpace := c == ' ' && last != ' '
		if !isSingleSpace && !isVisible(c) {
			return false
		}
		last = c
	}
	return last != ' ' || s == ""
}
