package records

import (
	"strings"

	"debrief/playbook/text"
)

// maxRead is the number of bytes read at the beginning of a text, and at its end if that matters. It bounds the cost
// of long texts.
const maxRead = 4 << 10

// cleaner replaces the characters that could end a quotation or look like markup or our own marks. All text copied from
// a trace passes through clean.
var cleaner = text.NewCleaner(map[rune]rune{
	'`': '\'', '"': '\'', '“': '\'', '”': '\'', '[': '(', '{': '(', ']': ')', '}': ')', '<': '‹', '>': '›', '→': '›',
})

// clean returns s as part of a line of at most limit characters, with an ellipsis if text is missing.
func clean(s string, limit int) string { return cleaner.Line(s, limit) }

// firstLine returns the first non-blank line of a text.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimLeft(s[:min(len(s), maxRead)], " \t\r\n"), "\n")
	return s
}

// firstReadableLine returns the first line with at least two letters or digits, which excludes rulers and brackets.
func firstReadableLine(output string) string {
	for line := range strings.Lines(output[:min(len(output), maxRead)]) {
		n := 0
		for _, r := range line {
			if text.InWord(r) {
				if n++; n == 2 {
					return line
				}
			}
		}
	}
	return firstLine(output)
}

// errorWords indicate an error in a line.
var errorWords = []string{
	"error", "exception", "fail", "panic", "fatal", "denied", "invalid", "illegal", "cannot", "can't", "couldn't", "unable",
	"refused", "missing", "not found", "no such", "timed out", "timeout", "not enough",
}

// errorLine returns the line of an output that describes the error. Of a JSON object it is the error or message
// field, and of a traceback the line after the indented ones. Otherwise it is the first line with an error word, else
// the first line. Of a long output both ends are searched.
func errorLine(output string) string {
	output = strings.TrimSpace(output)
	if strings.HasPrefix(output, "{") {
		if message := errorField(output); message != "" {
			output = message
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
		case inTrace || hasErrorWord(line):
			return line
		}
	}
	return firstReadableLine(output)
}

func hasErrorWord(line string) bool {
	line = strings.ToLower(line[:min(len(line), 2*MaxLine)])
	for _, c := range errorWords {
		if strings.Contains(line, c) {
			return true
		}
	}
	return false
}

// errorField returns the message of {"error": "…"}, {"error": {"message": "…"}}, {"message": "…"} or {"detail": "…"}.
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
