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

// Cut returns the first bytes of s, at most head, and the last bytes, at most tail. It does not split a character. If s has at most head plus
// tail bytes, first is s and last is empty.
func Cut(s string, head, tail int) (first, last string) {
	head, tail = max(head, 0), max(tail, 0)
	if len(s) <= head+tail {
		return s, ""
	}
	first, last = Prefix(s, head), s[len(s)-tail:]
	for n := 0; n < len(last) && n < utf8.UTFMax; n++ { // skip the end of a character
		if utf8.RuneStart(last[n]) {
			return first, last[n:]
		}
	}
	if len(last) < utf8.UTFMax {
		return first, "" // last has only a part of a character
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
	spaceNeeded := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			spaceNeeded = b.Len() > 0
			continue
		case r >= utf8.RuneSelf && unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d':
			continue
		}
		if spaceNeeded {
			b.WriteByte(' ')
			spaceNeeded = false
		}
		b.WriteRune(r) // U+FFFD for an invalid byte
		if b.Len() > limit {
			return strings.TrimRight(Prefix(b.String(), limit), " ") + Ellipsis
		}
	}
	return b.String()
}

// maxSkipped is the maximum number of bytes that Quote reads in addition to those that fit into the line. It bounds the cost of a long run
// of white space.
const maxSkipped = 4 << 10

// Quote returns the beginning of s as one line of at most limit characters, for text that is not trusted, such as the output of a tool. An
// [Ellipsis] is the last of them if text is missing. Unlike [Line], it removes all characters that are not visible, also control characters and joiners, and
// invalid bytes. replace replaces characters, such as those that could end a quotation.
func Quote(s string, limit int, replace *strings.Replacer) string {
	begin := Prefix(s, max(limit, 0)*utf8.UTFMax+maxSkipped)
	line := strings.Map(func(r rune) rune {
		isVisible := unicode.IsPrint(r) && r != utf8.RuneError && !unicode.Is(unicode.Variation_Selector, r)
		if !isVisible && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, replace.Replace(begin))
	runes := []rune(Line(line, len(line)))
	switch {
	case len(runes) <= limit && len(begin) == len(s):
		return string(runes)
	case limit <= 0:
		return ""
	}
	return strings.TrimRight(string(runes[:min(len(runes), limit-1)]), " ") + Ellipsis
}

// quotable replaces the characters that could end a quotation or imitate a placeholder, and their full-width forms.
var quotable = strings.NewReplacer("`", "'", "｀", "'", `"`, "'", "＂", "'", "“", "'", "”", "'", "{", "(", "｛", "(", "}", ")", "｝", ")")

// Quotable returns the beginning of s as [Quote] does, for a quotation in a sentence: backticks and double quotes become single quotes, and braces
// become parentheses.
func Quotable(s string, limit int) string { return Quote(s, limit, quotable) }

// isPlainLine reports whether a text is one line of visible ASCII with single spaces, so that Line can return it unchanged. Most texts are.
func isPlainLine(s string) bool {
	last := byte(' ') // a space at the beginning is not single
	for i := range len(s) {
		c := s[i]
		isSingleSpace := c == ' ' && last != ' '
		isVisible := c > ' ' && c <= '~'
		if !isSingleSpace && !isVisible {
			return false
		}
		last = c
	}
	return last != ' ' || s == ""
}
