package sliding

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentences yields pieces of a text of at most maxSentence bytes, each one line. It splits at line breaks, after a
// full stop, question mark or exclamation mark, and, if a piece is too long, at a space.
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }) {
			line = cleanLine(line)
			for line != "" {
				var s string
				s, line = firstSentence(line)
				if s = trimMarkers(s); s != "" && !yield(s) {
					return
				}
			}
		}
	}
}

// firstSentence splits a line after its first sentence.
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
				if r, _ := utf8.DecodeRuneInString(after); !unicode.IsLower(r) { // not an abbreviation such as e.g.
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

// cleanLine makes a line safe for a list: valid UTF-8, single spaces for white space and control characters, no code
// fences, and no invisible characters or changes of text direction.
func cleanLine(line string) string {
	if !isCleanASCII(line) {
		var b strings.Builder
		b.Grow(len(line))
		space := false
		for _, r := range line {
			switch {
			case unicode.IsSpace(r) || unicode.IsControl(r):
				space = b.Len() > 0
				continue
			case unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d': // joiners are part of words in some scripts
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
		line = fenceRemover.Replace(line)
	}
	return line
}

var fenceRemover = strings.NewReplacer("```", "", "~~~", "")

// isCleanASCII reports whether a line is ASCII that needs no change, like most lines.
func isCleanASCII(line string) bool {
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

// trimMarkers removes the marker of a list, heading, quotation or table at the beginning of a sentence.
func trimMarkers(s string) string {
	for {
		s = strings.TrimSpace(s)
		rest := strings.TrimLeft(s, "#->*+•|")
		if rest == s || rest != "" && rest[0] != ' ' {
			return s
		}
		s = rest
	}
}
