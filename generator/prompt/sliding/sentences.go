package sliding

import (
	"iter"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
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
		end = len(text.Prefix(line, maxSentence))
	}
	return line[:end], line[end:]
}

// cleanLine makes a line safe for a list: valid UTF-8, single spaces for white space and control characters, no code
// fences, and no invisible characters or changes of text direction.
func cleanLine(line string) string {
	line = text.Line(line, math.MaxInt)
	if strings.Contains(line, "```") || strings.Contains(line, "~~~") {
		line = fenceRemover.Replace(line)
	}
	return line
}

var fenceRemover = strings.NewReplacer("```", "", "~~~", "")

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
