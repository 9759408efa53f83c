package text

import (
	"regexp"
	"slices"
	"strings"
)

// Limits of ErrorLine.
const (
	maxErrorOutput = 16 << 10 // bytes that are read at each end of an output
	maxErrorLine   = 512      // bytes of a line
)

// errorWords are parts of a line that names an error, in lower case.
var errorWords = [...]string{
	"error", "exception", "fail", "panic", "fatal", "not found", "no such", "denied", "invalid", "illegal", "cannot", "can't", "couldn't", "could not",
	"unable", "not enough", "not available", "not allowed", "not been", "timed out", "time out", "timeout", "refused", "missing",
}

// NamesError reports whether a line has a word that names an error.
func NamesError(line string) bool {
	line = strings.ToLower(line)
	for _, w := range errorWords {
		if strings.Contains(line, w) {
			return true
		}
	}
	return false
}

// errorHeading matches a line that only announces the error on the next line.
var errorHeading = regexp.MustCompile(`(?i)^\W*(?:errors?|exit(?:ed with)? (?:code|status) \d+|command failed.*)\W*$`)

// errorWrapping matches the tags and the label around the error of a tool.
var errorWrapping = regexp.MustCompile(`^\s*(?:<tool_use_error>)?\s*(?:[-*•] )?(?:E(?:rror|RROR): )?|</?tool_use_error>`)

// ErrorLine returns the line of the output of a failed call that describes the error, without tags and labels around it. If the output is a
// JSON object with an error, only the text of this error is searched. ErrorLine reads only both ends of a long output. The line is the first
// of these that exists:
//
//   - the line that ends the last traceback
//   - the line after a heading such as "ERRORS:"
//   - the first line that names an error
//   - the first readable line, see IsReadable
//   - the first line
func ErrorLine(output string) string {
	if len(output) > 2*maxErrorOutput {
		output = output[:maxErrorOutput] + "\n" + output[len(output)-maxErrorOutput:]
	}
	output = strings.TrimSpace(output)
	if field := errorField(output); field != "" {
		output = field
	}
	var lines []string // without the blank ones
	for line := range strings.Lines(output) {
		line = strings.TrimRight(Prefix(line, maxErrorLine), "\r\n\t ")
		if line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	i := tracebackEnd(lines)
	if i < 0 {
		i = afterHeading(lines)
	}
	if i < 0 {
		i = firstError(lines)
	}
	return strings.TrimSpace(errorWrapping.ReplaceAllString(lines[i], ""))
}

// tracebackEnd returns the index of the line that ends the last traceback of Python, or -1.
func tracebackEnd(lines []string) int {
	end := -1
	inside := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "Traceback (most recent call last)"):
			inside = true
		case inside && line[0] != ' ': // after the indented lines
			end = i
			inside = false
		}
	}
	return end
}

// afterHeading returns the index of the first line that names an error and follows a heading, or -1.
func afterHeading(lines []string) int {
	for i, line := range lines[:len(lines)-1] {
		if errorHeading.MatchString(line) && NamesError(lines[i+1]) {
			return i + 1
		}
	}
	return -1
}

// firstError returns the index of the first line that names an error, else of the first readable one, else 0. It ignores headings.
func firstError(lines []string) int {
	isHeading := errorHeading.MatchString
	i := slices.IndexFunc(lines, func(line string) bool { return !isHeading(line) && NamesError(line) })
	if i < 0 {
		i = slices.IndexFunc(lines, func(line string) bool { return !isHeading(line) && IsReadable(line) })
	}
	return max(i, 0)
}

// IsReadable reports whether a line has at least two letters or digits, which excludes rulers and brackets.
func IsReadable(line string) bool {
	n := 0
	for _, r := range line {
		if InWord(r) {
			n++
		}
	}
	return n >= 2
}

// errorField returns the first string of a JSON object that is named error, else message, else detail. The end of the object may be missing.
// It returns "" for other text.
func errorField(output string) string {
	if !strings.HasPrefix(output, "{") {
		return ""
	}
	leaves := Leaves(output)
	for _, name := range [...]string{"error", "message", "detail"} {
		for _, l := range leaves {
			if l.IsString && strings.EqualFold(l.Name, name) && strings.TrimSpace(l.Value) != "" {
				return l.Value
			}
		}
	}
	return ""
}
