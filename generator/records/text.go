package records

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRead is how many bytes of a text are looked at, from each end that matters. Texts of any length cost the same.
const maxRead = 4 << 10

const ellipsis = "…"

// clean is s as a part of a line: at most so many characters with an ellipsis where something is missing, no control or
// invisible ones, and none of those that could end a quotation, open markup or pass for a mark of ours. It is the only
// way of a trace's text into ours.
func clean(s string, most int) string {
	more := len(s) > maxRead
	if more {
		s = s[:maxRead]
	}
	var b strings.Builder
	b.Grow(max(0, min(len(s), most+len(ellipsis))))
	n, end, space := 0, 0, false // end is where the last character begins that fits
	add := func(r rune) {
		if n++; n == most {
			end = b.Len()
		}
		b.WriteRune(r)
	}
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case r >= ' ' && r < utf8.RuneSelf-1:
		case !unicode.IsPrint(r) || r == utf8.RuneError || unicode.Is(unicode.Variation_Selector, r):
			continue
		}
		if space {
			add(' ')
			space = false
		}
		if add(plain(r)); n > most {
			break
		}
	}
	switch {
	case n < most || n == most && !more:
		if more {
			b.WriteString(ellipsis)
		}
		return b.String()
	case most < 1:
		return ""
	}
	return strings.TrimRight(b.String()[:end], " ") + ellipsis
}

func plain(r rune) rune {
	if r >= 0xff01 && r <= 0xff5e {
		r -= 0xff01 - '!' // the full-width forms of ASCII
	}
	switch r {
	case '`', '"', '“', '”':
		return '\''
	case '[', '{':
		return '('
	case ']', '}':
		return ')'
	case '<':
		return '‹'
	case '>', '→':
		return '›'
	}
	return r
}

// firstLine is the first line of a text that is not blank.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimLeft(s[:min(len(s), maxRead)], " \t\r\n"), "\n")
	return s
}

// tellingLine is the first line with something to read in it: not a ruler, a bracket or a number of one digit.
func tellingLine(output string) string {
	for line := range strings.Lines(output[:min(len(output), maxRead)]) {
		n := 0
		for _, r := range line {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				if n++; n == 2 {
					return line
				}
			}
		}
	}
	return firstLine(output)
}

// complaints are what lines have in them that say what went wrong.
var complaints = []string{
	"error", "exception", "fail", "panic", "fatal", "denied", "invalid", "illegal", "cannot", "can't", "couldn't", "unable",
	"refused", "missing", "not found", "no such", "timed out", "timeout", "not enough",
}

// errorLine is the line of an output that says what is wrong: of a JSON object its error or message, of a traceback the
// line behind the indented ones, else the first line that complains, else the first line. Of a long output it sees
// both ends.
func errorLine(output string) string {
	output = strings.TrimSpace(output)
	if strings.HasPrefix(output, "{") {
		if said := errorField(output); said != "" {
			output = said
		}
	}
	if len(output) > 2*maxRead {
		output = output[:maxRead] + "\n" + output[len(output)-maxRead:]
	}
	inTrace := false
	for line := range strings.Lines(output) {
		switch {
		case strings.HasPrefix(line, "Traceback (most recent call last)"):
			inTrace = true
		case strings.TrimSpace(line) == "" || inTrace && line[0] == ' ':
		case inTrace || complains(line):
			return line
		}
	}
	return tellingLine(output)
}

func complains(line string) bool {
	line = strings.ToLower(line[:min(len(line), 2*MaxLine)])
	for _, c := range complaints {
		if strings.Contains(line, c) {
			return true
		}
	}
	return false
}

// errorField is what a tool wrote as {"error": "…"}, {"error": {"message": "…"}}, {"message": "…"} or {"detail": "…"}.
func errorField(output string) string {
	list, _ := leaves(output[:min(len(output), maxRead)], maxLeaves)
	for _, path := range []string{"error\x00", "error\x00message\x00", "message\x00", "detail\x00"} {
		for _, l := range list {
			if l.path == path && l.text && l.value != "" {
				return l.value
			}
		}
	}
	return ""
}
