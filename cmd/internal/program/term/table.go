package term

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// Table aligns the cells of lines, which are separated by tabs. An empty line begins the next table.
type Table struct {
	// Plain is a table without names of columns. Otherwise the first line has them.
	Plain bool
	// Right aligns all cells to the right. Each cell must end with a tab.
	Right bool
	// Colors has the colour of cells by their text.
	Colors map[string]Color

	// Out is the output of Flush.
	Out io.Writer

	buf bytes.Buffer
}

// NewTable returns a table that Flush prints to out.
func NewTable(out io.Writer) *Table { return &Table{Out: out} }

// Write adds lines. It never fails.
func (t *Table) Write(p []byte) (int, error) { return t.buf.Write(p) }

// PrintTable prints a table with the names of its columns and a line for each item, which line writes.
func PrintTable[T any](out io.Writer, columns string, items []T, line func(w io.Writer, item T)) error {
	w := NewTable(out)
	_, _ = io.WriteString(w, columns+"\n")
	for _, item := range items {
		line(w, item)
	}
	return w.Flush()
}

// gap is the space between two columns.
const gap = 2

// Flush prints the tables.
func (t *Table) Flush() error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	if t.Right {
		w.Init(&text, 0, 0, gap, ' ', tabwriter.AlignRight)
	}
	out, colored := t.Out, hasColor(t.Out)
	names := !t.Plain
	lines := slices.Collect(strings.Lines(clean(t.buf.String())))
	if limit := Width(t.Out); limit > 0 && !t.Right {
		lines = fit(lines, limit)
	}
	for _, line := range lines {
		if colored {
			line = t.paint(line, names)
		}
		names = !t.Plain && line == "\n"
		_, _ = io.WriteString(w, line)
	}
	t.buf.Reset()
	_ = w.Flush()
	if to, ok := out.(*Writer); ok {
		out = rawWriter{to}
	}
	for line := range strings.Lines(text.String()) {
		if t.Right {
			line = strings.TrimPrefix(line, strings.Repeat(" ", gap)) // the package puts the gap before the first column, too
		}
		if _, err := io.WriteString(out, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// minLastCell is the minimum width to which the last column of a table is wrapped.
const minLastCell = 20

// fit wraps the last cells of the lines of tables, so that each table has at most limit columns of text. A table whose other
// columns need that space stays wider.
func fit(lines []string, limit int) (fitted []string) {
	for len(lines) > 0 {
		n := slices.Index(lines, "\n")
		if n < 0 {
			n = len(lines)
		}
		fitted = append(fitted, fitTable(lines[:n], limit)...)
		if n < len(lines) {
			fitted = append(fitted, lines[n])
			n++
		}
		lines = lines[n:]
	}
	return fitted
}

// fitTable wraps the last cells of the lines of one table.
func fitTable(lines []string, limit int) (fitted []string) {
	var rows [][]string
	var widths []int
	for _, line := range lines {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		rows = append(rows, cells)
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := len(widths) - 1
	for _, width := range widths[:max(last, 0)] {
		limit -= width + gap
	}
	for _, cells := range rows {
		wrapped := []string{""}
		if len(cells) > last {
			wrapped = Wrap(cells[last], max(limit, minLastCell), true)
			cells = cells[:last]
		}
		for i, part := range wrapped {
			if i > 0 {
				cells = make([]string, last)
			}
			fitted = append(fitted, strings.Join(append(slices.Clone(cells), part), "\t")+"\n")
		}
	}
	return fitted
}

// paint adds colours to the cells of a line. The sequences of all cells are equally long, so the columns stay aligned.
func (t *Table) paint(line string, names bool) string {
	cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	for i, cell := range cells {
		c := t.Colors[cell]
		switch {
		case names:
			c = Bold
		case c == "":
			c = noColor
		}
		if i < len(cells)-1 || cell != "" {
			cells[i] = c.paint(cell)
		}
	}
	return strings.Join(cells, "\t") + "\n"
}

// Color is a control sequence that begins text in a colour or style.
type Color Sequence

// The colours and styles that the programs use. All are equally long.
const (
	Bold   Color = "\x1b[01m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"

	noColor Color = "\x1b[00m"
)

func (c Color) paint(text string) string { return string(c) + text + string(noColor) }

// hasColor reports whether an output is a terminal with colours, and the user has not disabled them with NO_COLOR.
func hasColor(out io.Writer) bool {
	w, ok := out.(*Writer)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && w.IsTerminal()
}

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
// beginning are kept on each line. Without wrapping it returns the text as one line.
func Wrap(text string, limit int, wrapping bool) (lines []string) {
	if !wrapping || utf8.RuneCountInString(text) <= limit {
		return []string{text}
	}
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := indent
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == indent:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > limit:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
