package term

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

// Writer writes cleaned text to a file. It is safe for concurrent use if the file is. The field points to os.Stdout or os.Stderr,
// which tests replace.
type Writer struct{ file **os.File }

// Write writes p as cleaned text and returns the number of bytes of p. A character must not be split between two writes.
func (w *Writer) Write(p []byte) (int, error) {
	text := string(p)
	cleaned := clean(text)
	if cleaned == text {
		return w.File().Write(p)
	}
	if _, err := io.WriteString(w.File(), cleaned); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Sequence is a control sequence of the programs.
type Sequence string

// The sequences that the programs use.
const (
	ClearLine   Sequence = "\r\x1b[K"
	ClearScreen Sequence = "\x1b[H\x1b[2J"
	Return      Sequence = "\r" // to the beginning of the line
)

// Control sends a control sequence to w if w is a terminal.
func Control(w io.Writer, s Sequence) {
	if w, ok := w.(*Writer); ok && w.IsTerminal() {
		_, _ = io.WriteString(w.File(), string(s)) // the text that follows reports the error
	}
}

// IsTerminal reports whether the output is a terminal.
func (w *Writer) IsTerminal() bool { return term.IsTerminal(int(w.File().Fd())) }

// InputIsTerminal reports whether standard input is a terminal, where a person can answer a question.
func InputIsTerminal() bool { return term.IsTerminal(int(os.Stdin.Fd())) }

// rawWriter writes to the same file without cleaning: for text that is cleaned already and has control sequences of the programs.
type rawWriter struct{ *Writer }

func (r rawWriter) Write(p []byte) (int, error) { return r.File().Write(p) }

// File returns the file, for child processes. They clean their own output.
func (w *Writer) File() *os.File { return *w.file }

// clean returns text without characters that control a terminal. Line breaks and tabs stay; a carriage return before a
// line break is dropped.
func clean(text string) string {
	if !needsCleaning(text) {
		return text
	}
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\ufffd") {
		if isControl(c) {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Line returns text like clean, with each line break and tab replaced by a space.
func Line(text string) string {
	return clean(strings.Map(func(c rune) rune {
		switch c {
		case '\n', '\r', '\t', '\v', '\f', 0x85, 0x2028, 0x2029:
			return ' '
		}
		return c
	}, text))
}

// needsCleaning reports whether text has characters to clean.
func needsCleaning(text string) bool {
	for i := 0; i < len(text); {
		if c := text[i]; ' ' <= c && c <= '~' { // most characters; the others need the tables
			i++
			continue
		}
		c, n := utf8.DecodeRuneInString(text[i:])
		isInvalid := c == utf8.RuneError && n == 1
		if isInvalid || isControl(c) {
			return true
		}
		i += n
	}
	return false
}

// isControl reports whether a character controls a terminal: C0 and C1 controls, bidirectional controls, and line and
// paragraph separators.
func isControl(c rune) bool {
	if c == '\n' || c == '\t' {
		return false
	}
	return unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == 0x2028 || c == 0x2029
}
