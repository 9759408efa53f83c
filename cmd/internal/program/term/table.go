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
	// Right aligns all cells to the right. Each cell must end with a tab.
	Right bool
	// Out is the output of Flush.
	Out io.Writer

	buf bytes.Buffer
}

// NewTable returns a table that Flush prints to out.
func NewTable(out io.Writer) *Table { return &Table{Out: out} }

// Write adds lines. It never fails.
func (t *Table) Write(p []byte) (int, error) { return t.buf.Write(p) }

// PrintTable prints a table. columns has the names of the columns, separated by tabs, and the function line writes the line of an item.
func PrintTable[T any](out io.Writer, columns string, items []T, line func(w io.Writer, item T)) error {
	w := NewTable(out)
	_, _ = io.WriteString(w, columns+"\n")
	for _, item := range items {
		line(w, item)
	}
	return w.Flush()
}

const gap = 2 // space between two columns

// Flush prints the tables.
func (t *Table) Flush() error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, gap, ' ', 0)
	if t.Right {
		w.Init(&text, 0, 0, gap, ' ', tabwriter.AlignRight)
	}
	lines := slices.Collect(strings.Lines(clean(t.buf.String())))
	if limit := Width(t.Out); limit > 0 && !t.Right {
		lines = fit(lines, limit)
	}
	for _, line := range lines {
		_, _ = io.WriteString(w, line)
	}
	t.buf.Reset()
	_ = w.Flush()
	out := t.Out
	if to, ok := out.(*Writer); ok {
		out = rawWriter{to}
	}
	var trimmed strings.Builder // written at once, so that a reader of a terminal sees whole tables
	for line := range strings.Lines(text.String()) {
		if t.Right {
			line = strings.TrimPrefix(line, strings.Repeat(" ", gap)) // tabwriter puts the gap before the first column, too
		}
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(out, trimmed.String())
	return err
}

const minLastCell = 20 // minimum width to which the last column of a table is wrapped

// fit wraps the last cell of each line, so that each table is at most limit characters wide. A table stays wider if its other columns
// leave less than minLastCell.
func fit(lines []string, limit int) (fitted []string) {
	for len(lines) > 0 {
		n := slices.Index(lines, "\n") // lines of the first table
		if n < 0 {
			n = len(lines)
		}
		fitted = append(fitted, fitTable(lines[:n], limit)...)
		if n < len(lines) {
			fitted = append(fitted, lines[n]) // the empty line after the table
			n++
		}
		lines = lines[n:]
	}
	return fitted
}

// fitTable wraps the cells of the last column of one table. A line with fewer cells ends with a tab, so that
// its last cell is in its column.
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
		if len(cells) <= last {
			fitted = append(fitted, strings.Join(append(slices.Clone(cells), ""), "\t")+"\n")
			continue
		}
		before := cells[:last]
		for _, part := range Wrap(cells[last], max(limit, minLastCell)) {
			fitted = append(fitted, strings.Join(append(slices.Clone(before), part), "\t")+"\n")
			before = make([]string, last) // empty before the further lines of the cell
		}
	}
	return fitted
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

// Wrap breaks text at spaces into lines of at most limit characters. A longer word has a line to itself. Each line begins with the
// spaces at the beginning of the text.
func Wrap(text string, limit int) (lines []string) {
	if utf8.RuneCountInString(text) <= limit {
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
