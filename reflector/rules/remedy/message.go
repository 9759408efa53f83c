package remedy

import (
	"encoding/json"
	"regexp"
	"strings"

	"debrief/events/shell"
	"debrief/playbook/text"
)

// Limits of the texts that a lesson quotes. The text of a recording is not trusted: all of it passes through quote.
const (
	maxQuote    = 120      // bytes of an error
	maxName     = 48       // bytes of a tool, program, argument or value
	maxLine     = 512      // bytes of a line that is compared
	maxOutputAt = 16 << 10 // bytes that are read at each end of an output
)

// quote returns s as one clean line of at most limit bytes, apart from an ellipsis; see [text.Quotable].
func quote(s string, limit int) string {
	if s = text.Quotable(s, limit); s == "" {
		return "?"
	}
	if len(s) > limit+len(text.Ellipsis) {
		s = text.Prefix(s, limit) + text.Ellipsis
	}
	return s
}

// message is the error of a failed act.
type message struct {
	// text is the main line of the error, clean, with a placeholder for each part that differs between two reports of
	// one error. Equal texts are one error.
	text string
	// cause is the cause of the failure, if it is known, and missing the name of the missing object, if the error has it.
	cause   shell.Cause
	missing string
	line    string   // as the tool wrote it
	numbers []string // of the line, the first maxNumbers
}

// messages finds the messages of outputs. It remembers some of them, because most runs have few different errors.
type messages map[string]message

// maxRemembered is the maximum number of lines in messages.
const maxRemembered = 4096

// find returns the error in the output of a failed call.
func (known messages) find(output string) message {
	line := errorLine(output)
	m, ok := known[line]
	if !ok {
		if len(known) >= maxRemembered {
			clear(known)
		}
		line = strings.Clone(line)
		m = newMessage(line)
		known[line] = m
	}
	return m
}

func newMessage(line string) message {
	m := message{line: line, text: quote(replaceVarying(line), maxQuote), numbers: numbersOf(line)}
	m.cause, m.missing = shell.FindCause(line)
	return m
}

// errorWords are parts of a line that names an error, in lower case.
var errorWords = [...]string{
	"error", "exception", "fail", "not found", "no such", "denied", "invalid", "illegal", "cannot", "can't", "couldn't", "could not", "unable",
	"not enough", "not available", "not allowed", "not been", "timed out", "time out", "timeout", "refused", "fatal", "missing",
}

func namesError(line string) bool {
	line = strings.ToLower(line)
	for _, w := range errorWords {
		if strings.Contains(line, w) {
			return true
		}
	}
	return false
}

// heading matches a line that only announces the error on the next line.
var heading = regexp.MustCompile(`(?i)^\W*(?:errors?|exit(?:ed with)? (?:code|status) \d+|command failed.*)\W*$`)

// wrapped matches the tags and the label around the error of a tool.
var wrapped = regexp.MustCompile(`</?tool_use_error>|^\s*(?:[-*•] )?(?:E(?:rror|RROR): )?`)

// errorLine returns the line of an output with the error: the error of a JSON object, the line after a heading such as
// "ERRORS:", the line after the indented ones of a traceback, the first line that names an error, or the first line.
// It reads only both ends of a long output.
func errorLine(output string) string {
	if len(output) > 2*maxOutputAt {
		output = output[:maxOutputAt] + "\n" + output[len(output)-maxOutputAt:]
	}
	output = strings.TrimSpace(output)
	if field, ok := errorField(output, 2); ok {
		output = field
	}
	lines := splitLines(output)
	at := tracebackEnd(lines)
	if at < 0 {
		at = afterHeading(lines)
	}
	if at < 0 {
		at = firstError(lines)
	}
	if at < 0 {
		return ""
	}
	return strings.TrimSpace(wrapped.ReplaceAllString(lines[at], ""))
}

// splitLines returns the lines that are not blank, clipped.
func splitLines(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimRight(text.Prefix(line, maxLine), "\r\n\t ")
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// tracebackEnd returns the index of the line that ends the last traceback of Python, or -1.
func tracebackEnd(lines []string) int {
	end, inside := -1, false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "Traceback (most recent call last)"):
			inside = true
		case inside && line[0] != ' ':
			end, inside = i, false
		}
	}
	return end
}

func afterHeading(lines []string) int {
	for i, line := range lines[:max(0, len(lines)-1)] {
		if heading.MatchString(line) && namesError(lines[i+1]) {
			return i + 1
		}
	}
	return -1
}

func firstError(lines []string) int {
	first := -1
	for i, line := range lines {
		if heading.MatchString(line) {
			continue
		}
		if namesError(line) {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	if first < 0 && len(lines) > 0 {
		return 0 // only headings
	}
	return first
}

// errorField returns the error of {"error": "…"}, {"error": {"message": "…"}}, {"message": "…"} or {"detail": "…"}.
func errorField(output string, depth int) (string, bool) {
	if depth == 0 || !strings.HasPrefix(output, "{") {
		return "", false
	}
	var object struct{ Error, Message, Detail json.RawMessage }
	if json.Unmarshal([]byte(output), &object) != nil {
		return "", false
	}
	for _, raw := range []json.RawMessage{object.Error, object.Message, object.Detail} {
		var s string
		if json.Unmarshal(raw, &s) == nil && strings.TrimSpace(s) != "" {
			return s, true
		}
		if s, ok := errorField(string(raw), depth-1); ok {
			return s, true
		}
	}
	return "", false
}
