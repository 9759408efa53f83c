package console

import (
	"fmt"
	"io"
)

// Block is text that may have several lines.
type Block string

// argument is a value that stays on its line, whatever it is formatted as.
type argument struct{ value any }

// Format implements fmt.Formatter.
func (a argument) Format(f fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(f, verb), a.value)
	if _, lines := a.value.(Block); lines {
		text = Clean(text)
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

// Fprintf is fmt.Fprintf with each argument cleaned and on one line, Blocks aside. The format is ours. A width is not given
// with *.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, arguments(args)...)
}

// Fprintln is fmt.Fprintln with each argument cleaned and on one line, Blocks aside.
func Fprintln(w io.Writer, args ...any) (int, error) { return fmt.Fprintln(w, arguments(args)...) }

// Printf is Fprintf to standard output.
func Printf(format string, args ...any) (int, error) { return Fprintf(Stdout, format, args...) }

// Println is Fprintln to standard output.
func Println(args ...any) (int, error) { return Fprintln(Stdout, args...) }
