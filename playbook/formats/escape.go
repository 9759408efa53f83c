package formats

import (
	"fmt"
	"strings"
	"unicode"
)

// escape splits a content into the lines of a text file. It adds backslashes so that no line looks like a header or a
// bullet, and returns a description of each change.
func escape(f Format, content string) (lines, changes []string) {
	lines = strings.Split(content, "\n")
	for i, text := range lines {
		indent := text[:len(text)-len(strings.TrimLeftFunc(text, unicode.IsSpace))]
		looks := looksLike(f, text[len(indent):], i == 0)
		if looks == "" {
			continue
		}
		lines[i] = indent + `\` + text[len(indent):]
		changes = append(changes, fmt.Sprintf("line %d looks like %s; escaped with a backslash", i+1, looks))
	}
	if f == AppWorld && strings.Contains(content, "```") {
		changes = append(changes, escapeOpenCode(lines)...)
	}
	return lines, changes
}

// looksLike returns the element of a text that a content line could be mistaken for, empty for none. Text has no leading
// white space. The first line follows an id, so it can only look like counters.
func looksLike(f Format, text string, first bool) string {
	if first {
		if f == AppWorld && malformedLine.MatchString("[x]"+text) {
			return "counters"
		}
		return ""
	}
	switch classify(text, f).kind {
	case header:
		return "a header"
	case bullet, malformed:
		return "a bullet"
	}
	return ""
}

// escapeOpenCode escapes backquotes that open a code block without an end in these lines. Such a block could end in a
// later bullet, and the headers in between would be read as content.
func escapeOpenCode(lines []string) (changes []string) {
	last := len(lines) - 1
	for last >= 0 && !closesCode(lines[last]) {
		last--
	}
	for i := 0; i < len(lines); i++ {
		if !opensCode(lines[i]) {
			continue
		}
		if i < last {
			for i++; !closesCode(lines[i]); i++ {
			}
			continue
		}
		at := strings.LastIndex(lines[i], "```")
		lines[i] = lines[i][:at] + `\` + lines[i][at:]
		changes = append(changes, fmt.Sprintf("line %d opens a code block that is not closed; escaped with a backslash", i+1))
	}
	return changes
}
