// Package console is the only way of the programs to standard output and standard error. Text from agents, models and files
// must not command the terminal that shows it, so everything written here is cleaned: control characters, bidirectional
// controls and invalid UTF-8 never reach the terminal. The programs' own control sequences have a type, Sequence.
//
// Fprintf and its kin also keep each argument on its line. Text that may have several lines is passed as a Block.
//
// Cleaned characters appear as JSON escapes them (\u001b), so JSON stays JSON with the same value.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Stdout and Stderr are the standard streams, cleaned.
var (
	Stdout = &Writer{&os.Stdout}
	Stderr = &Writer{&os.Stderr}
)

// Writer cleans text on its way to a file. It is as safe for concurrent use as the file.
type Writer struct{ file **os.File }

// Write writes cleaned text. The count is that of p's bytes. A character must not be split between two writes.
func (w *Writer) Write(p []byte) (int, error) {
	text := string(p)
	cleaned := Clean(text)
	if cleaned == text {
		return w.File().Write(p)
	}
	if _, err := io.WriteString(w.File(), cleaned); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Sequence is a control sequence that the programs themselves send.
type Sequence string

// The sequences that the programs use.
const (
	ClearLine   Sequence = "\r\x1b[K"
	ClearScreen Sequence = "\x1b[H\x1b[2J"
	Return      Sequence = "\r" // to the beginning of the line
)

// Control sends a control sequence to w if it is a terminal.
func Control(w io.Writer, s Sequence) {
	if w, ok := w.(*Writer); ok && w.IsTerminal() {
		_, _ = io.WriteString(w.File(), string(s)) // the text that follows reports the error
	}
}

// IsTerminal reports whether a person sees the output.
func (w *Writer) IsTerminal() bool { return term.IsTerminal(int(w.File().Fd())) }

// File is the file itself, for processes that are started. They clean their own output.
func (w *Writer) File() *os.File { return *w.file }

// Clean returns text without characters that a terminal would obey. Line breaks and tabs stay; a carriage return before a
// line break is dropped.
func Clean(text string) string {
	if !unsafe(text) {
		return text
	}
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\ufffd") {
		if obeyed(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Line returns text as Clean does, with a space in the place of each line break and tab.
func Line(text string) string {
	return Clean(strings.Map(func(c rune) rune {
		switch c {
		case '\n', '\r', '\t', '\v', '\f', 0x85, 0x2028, 0x2029:
			return ' '
		}
		return c
	}, text))
}

// unsafe reports whether text has something to clean.
func unsafe(text string) bool {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
				return true
			}
			i++
			continue
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		if c == utf8.RuneError && n == 1 || obeyed(c) {
			return true
		}
		i += n
	}
	return false
}

// obeyed reports whether a terminal obeys a character instead of showing it: controls of C0 and C1, those that turn the
// reading direction, and separators of lines.
func obeyed(c rune) bool {
	if c == '\n' || c == '\t' {
		return false
	}
	return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == 0x2028 || c == 0x2029
}

// Values cleans the names and the texts of an event that is logged, in place, one line each.
func Values(event map[string]any) {
	for name, v := range event {
		event[name] = lines(v)
		if clean := Line(name); clean != name {
			event[clean] = event[name]
			delete(event, name)
		}
	}
}

func lines(v any) any {
	switch v := v.(type) {
	case string:
		return Line(v)
	case []any:
		for i := range v {
			v[i] = lines(v[i])
		}
	case map[string]any:
		Values(v)
	}
	return v
}
