package term

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Block is text that may have several lines.
type Block string

// argument formats a value as cleaned text: on one line, or a Block on several lines.
type argument struct{ value any }

func (a argument) Format(f fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(f, verb), a.value)
	if _, isBlock := a.value.(Block); isBlock {
		text = clean(text)
	} else {
		text = Line(text)
	}
	_, _ = io.WriteString(f, text)
}

// arguments wraps the arguments of a print function.
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

// Printf is like Fprintf, to standard output.
func Printf(format string, args ...any) (int, error) { return Fprintf(Stdout, format, args...) }

// Println is like Fprintln, to standard output.
func Println(args ...any) (int, error) { return Fprintln(Stdout, args...) }

// Doing prints a text such as "waiting for the answer" to standard error after a delay, unless done is called before. The delay is
// one second on a terminal, where a person waits, and else six seconds.
func Doing(text string) (done func()) {
	delay := 6 * time.Second
	if Stderr.IsTerminal() {
		delay = time.Second
	}
	notice := time.AfterFunc(delay, func() { Fprintf(Stderr, "%s\n", text) })
	return func() { notice.Stop() }
}

// Plural returns a number with its noun, which forms its plural with s.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Join lists names or ids, separated by commas.
func Join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = string(one)
	}
	return strings.Join(texts, ", ")
}

// OneLine returns the beginning of text on one line, with at most limit characters. The limit must be at least 1.
func OneLine(text string, limit int) string {
	r := []rune(Line(text))
	if len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return string(r)
}
