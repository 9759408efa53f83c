package app

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/console"
)

// Widths of the help text in columns. Kong needs minHelp for its two columns, and lines of more than maxHelp are hard to
// read.
const (
	minHelp     = 64
	maxHelp     = 110
	defaultHelp = 80 // without a terminal
)

// printHelp prints the help of kong for the width of the output. Kong itself knows the width only of an *os.File and of the
// variable COLUMNS.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	width := console.Width(ctx.Stdout)
	if width == 0 {
		width = defaultHelp
	}
	if width >= minHelp {
		return kongHelp(o, ctx, min(width, maxHelp))
	}
	out := ctx.Stdout
	var text strings.Builder
	ctx.Stdout = &text
	err := kongHelp(o, ctx, 1<<20) // no line is broken
	ctx.Stdout = out
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, narrow(text.String(), width))
	return err
}

// kongHelp prints the help of kong in lines of at most width columns.
func kongHelp(o kong.HelpOptions, ctx *kong.Context, width int) error {
	before, set := os.LookupEnv("COLUMNS")
	if err := os.Setenv("COLUMNS", strconv.Itoa(width)); err != nil {
		return err
	}
	defer func() {
		if set {
			_ = os.Setenv("COLUMNS", before)
		} else {
			_ = os.Unsetenv("COLUMNS")
		}
	}()
	return kong.DefaultHelpPrinter(o, ctx)
}

var (
	row  = regexp.MustCompile(`^(?: {2}| {6})(\S.*?) {4,}(\S.*)$`) // of a table of kong: name and text
	item = regexp.MustCompile(`^ {4,}\S+ {2,3}\S`)                 // of a list in a text
)

// narrow formats a help text without broken lines for few columns: the text of a flag or command is below its name. Lines
// with an indent of four, such as examples, stay whole, so that they can be copied.
func narrow(text string, width int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if found := row.FindStringSubmatch(strings.TrimSuffix(line, "\n")); found != nil {
			out.WriteString("  " + found[1] + "\n")
			for _, part := range console.Wrap(found[2], width-6, true) {
				out.WriteString("      " + part + "\n")
			}
		} else if strings.HasPrefix(line, "    ") && !item.MatchString(line) {
			out.WriteString(line)
		} else {
			out.WriteString(console.Reflow(line, width))
		}
	}
	return out.String()
}
