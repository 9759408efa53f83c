package term

import (
	"fmt"
	"io"
)

// Block is text that may have several lines.
type Block string

// argument is a value that is formatted as cleaned text on one line, or as several lines for a Block.
type argument struct{ value any }

// Format implements fmt.Formatter.
func (a argument) Format(f fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(f, verb), a.value)
	if _, lines := a.value.(Block); lines {
		text = clean(text)
	} else {
		text = Line(text)
	}
	_, _ = io.WriteString(f, text)
}

func arguments(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = argument{a}
	}
	return out
}

// Fprintf is like fmt.Fprintf, but cleans each argument and keeps it on one line, except Blocks. The format is trusted. It
// must not use * for a width.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, arguments(args)...)
}

// Fprintln is like fmt.Fprintln, but cleans each argument and keeps it on one line, except Blocks.
func Fprintln(w io.Writer, args ...any) (int, error) { return fmt.Fprintln(w, arguments(args)...) }

// Printf prints text for people to standard output: like Fprintf, and broken at spaces to fit the terminal. Use Fprintf for
// text that must stay whole, such as a prompt, an answer or a script.
func Printf(format string, args ...any) (int, error) { return Fprose(Stdout, format, args...) }

// Fprose is like Printf, to an output.
func Fprose(w io.Writer, format string, args ...any) (int, error) {
	return io.WriteString(w, Reflow(fmt.Sprintf(format, arguments(args)...), Width(w)))
}

// Println is like Printf with the format of Fprintln.
func Println(args ...any) (int, error) {
	return io.WriteString(Stdout, Reflow(fmt.Sprintln(arguments(args)...), Width(Stdout)))
}
