package term

import (
	"fmt"
	"io"
	"os"
)

// Color is a control sequence that begins text in a colour or style.
type Color Sequence

// The colours and styles that the programs use.
const (
	Bold   Color = "\x1b[1m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"

	endColor = "\x1b[0m"
)

// Colors has colours by text.
type Colors map[string]Color

// hasColor reports whether an output is a terminal with colours, and the user has not disabled them with NO_COLOR.
func hasColor(out io.Writer) bool {
	w, ok := out.(*Writer)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && w.IsTerminal()
}

// paint returns cleaned text in a colour, or unchanged without colours.
func paint(text string, c Color, colored bool) string {
	if !colored || c == "" || text == "" {
		return text
	}
	return string(c) + text + endColor
}

// FprintColored prints an argument like Fprintf, in a colour if out has colours.
func FprintColored(out io.Writer, c Color, arg any) (int, error) {
	if w, ok := out.(*Writer); ok && hasColor(out) {
		text := Line(fmt.Sprint(arg))
		if _, err := io.WriteString(w.Raw(), paint(text, c, true)); err != nil {
			return 0, err
		}
		return len(text), nil
	}
	return Fprintf(out, "%v", arg)
}
