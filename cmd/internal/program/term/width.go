package term

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// Width returns the number of columns of an output: of COLUMNS, or of the terminal. It returns 0 for an output without a width,
// such as a pipe or a file.
func Width(out io.Writer) int {
	w, ok := out.(*Writer)
	if !ok {
		return 0
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	n, _, err := term.GetSize(int(w.File().Fd()))
	if err != nil {
		return 0
	}
	return n
}

// Wrap breaks text at spaces into lines of at most limit columns. A longer word has a line to itself. The spaces at the
// beginning are kept on each line, and those between words inside a line. Without wrapping it returns the text as one line.
func Wrap(text string, limit int, wrapping bool) (lines []string) {
	if !wrapping || textWidth(text) <= limit {
		return []string{text}
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line, rest := indent, text[len(indent):]
	for word := range strings.FieldsSeq(rest) {
		at := strings.Index(rest, word)
		space := rest[:at]
		rest = rest[at+len(word):]
		if strings.Trim(space, " ") != "" {
			space = " "
		}
		switch {
		case line == indent:
			line += word
		case textWidth(line)+len(space)+textWidth(word) > limit:
			lines = append(lines, line)
			line = indent + word
		default:
			line += space + word
		}
	}
	return append(lines, line)
}

// label matches the first cell of a line of a list, or the mark of a line of a comparison, with the space behind it.
var label = regexp.MustCompile(`^[-+~] |^ *\S+(?: \S+)* {2,}`)

// Reflow breaks the lines of a text that are longer than width at spaces. The further lines of a list are below the second
// cell, and those of indented text two columns further. A width of 0 breaks no line.
func Reflow(text string, width int) string {
	if width == 0 {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		line, end := strings.CutSuffix(line, "\n")
		first := line[:len(line)-len(strings.TrimLeft(line, " "))]
		further := first
		if first != "" {
			further += "  "
		}
		if cell := label.FindString(line); cell != "" && textWidth(cell) <= width/2 {
			first, further = cell, strings.Repeat(" ", textWidth(cell))
		}
		parts := []string{line}
		if textWidth(line) > width {
			parts = Wrap(line[len(first):], max(width-len(further), minText/2), true)
			parts[0] = first + parts[0]
		}
		out.WriteString(strings.Join(parts, "\n"+further))
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// textWidth returns the number of columns that a terminal needs for text on one line.
func textWidth(text string) (n int) {
	for _, c := range text {
		switch {
		case c < 0x300:
			n++
		case unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf):
		case wide(c):
			n += 2
		default:
			n++
		}
	}
	return n
}

// wide reports whether a character takes two columns.
func wide(c rune) bool {
	k := width.LookupRune(c).Kind()
	return k == width.EastAsianWide || k == width.EastAsianFullwidth
}
