package sliding

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentences yields a text in pieces of at most maxSentence bytes that can stand on a line of their own: parted at line
// breaks, after a full stop, question or exclamation mark, and where a piece is too long, at a space.
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }) {
			line = oneLine(line)
			for line != "" {
				var s string
				s, line = firstSentence(line)
				if s = unmarked(s); s != "" && !yield(s) {
					return
				}
			}
		}
	}
}

// firstSentence parts a line after its first sentence.
func firstSentence(line string) (s, rest string) {
	for at, r := range line {
		if at > maxSentence {
			break
		}
		next := line[at+utf8.RuneLen(r):]
		switch r {
		case '。', '！', '？':
			return line[:len(line)-len(next)], next
		case '.', '!', '?':
			if after, ok := strings.CutPrefix(next, " "); ok {
				if r, _ := utf8.DecodeRuneInString(after); !unicode.IsLower(r) { // no e.g. and the like
					return line[:len(line)-len(next)], after
				}
			}
		}
	}
	if len(line) <= maxSentence {
		return line, ""
	}
	end := strings.LastIndexByte(line[:maxSentence+1], ' ')
	if end <= 0 {
		for end = maxSentence; !utf8.RuneStart(line[end]); end-- {
		}
	}
	return line[:end], line[end:]
}

// oneLine is a line as it can stand in a list: valid UTF-8, white space and control characters as single spaces,
// without fences and without what shows nothing or turns the direction of writing.
func oneLine(line string) string {
	if !plain(line) {
		var b strings.Builder
		b.Grow(len(line))
		space := false
		for _, r := range line {
			switch {
			case unicode.IsSpace(r) || unicode.IsControl(r):
				space = b.Len() > 0
				continue
			case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d': // the joiners spell words
				continue
			}
			if space {
				b.WriteByte(' ')
				space = false
			}
			b.WriteRune(r)
		}
		line = b.String()
	}
	if strings.Contains(line, "```") || strings.Contains(line, "~~~") {
		line = fences.Replace(line)
	}
	return line
}

var fences = strings.NewReplacer("```", "", "~~~", "")

// plain says whether a line is ASCII with nothing to clean, as most are.
func plain(line string) bool {
	last := byte(' ')
	for i := range len(line) {
		c := line[i]
		if c < ' ' || c > '~' || c == ' ' && last == ' ' {
			return false
		}
		last = c
	}
	return true
}

// unmarked is a sentence without the mark of a list, a heading, a quotation or a table at its beginning.
func unmarked(s string) string {
	for {
		s = strings.TrimSpace(s)
		rest := strings.TrimLeft(s, "#->*+•|")
		if rest == s || rest != "" && rest[0] != ' ' {
			return s
		}
		s = rest
	}
}
