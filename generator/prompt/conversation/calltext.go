package conversation

import (
	"strings"

	"debrief/playbook/text"
)

// maxCallRead is the number of bytes that are read of a text of a call, from its beginning. It bounds the cost of long texts.
const maxCallRead = 4 << 10

// replacer replaces the characters that could end a quotation, or look like markup or like the arrow of a line, and their full-width forms. All text
// from a trace passes through clean.
var replacer = strings.NewReplacer(
	"`", "'", "｀", "'", `"`, "'", "＂", "'", "“", "'", "”", "'", "[", "(", "［", "(", "{", "(", "｛", "(", "]", ")", "］", ")", "}", ")", "｝", ")",
	"<", "‹", "＜", "‹", ">", "›", "＞", "›", "→", "›",
)

// clean returns s as part of a line of at most limit characters, with an ellipsis if text is missing.
func clean(s string, limit int) string { return text.Quote(s, limit, replacer) }

// firstLine returns the first non-blank line of a text.
func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimLeft(s[:min(len(s), maxCallRead)], " \t\r\n"), "\n")
	return s
}

// firstReadableLine returns the first line with at least two letters or digits, which excludes rulers and brackets.
func firstReadableLine(output string) string {
	for line := range strings.Lines(output[:min(len(output), maxCallRead)]) {
		if text.IsReadable(line) {
			return line
		}
	}
	return firstLine(output)
}
