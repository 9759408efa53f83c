package term

import (
	"bytes"
	"io"
	"strings"
)

// Table formats lines with tab-separated cells as a table that fits the terminal. An empty line begins the next table. The last
// column is wrapped at spaces if the table is too wide; words, such as ids, stay whole. If that column would become too narrow,
// the table is printed with its rows as columns, or each row as a list of its cells with the names of the columns. Output that is not a terminal is not wrapped.
type Table struct {
	// Plain is a table without names of columns. Otherwise the first line has them.
	Plain bool
	// Right aligns all cells to the right.
	Right bool
	// Colors has the colour of cells by their text.
	Colors Colors

	// Out is the output of Flush.
	Out io.Writer

	buf bytes.Buffer
}

// NewTable returns a table that Flush prints to out.
func NewTable(out io.Writer) *Table { return &Table{Out: out} }

// Write adds lines. It never fails.
func (t *Table) Write(p []byte) (int, error) { return t.buf.Write(p) }

// Flush prints the tables.
func (t *Table) Flush() error {
	text := strings.TrimSuffix(t.buf.String(), "\n")
	t.buf.Reset()
	if text == "" {
		return nil
	}
	p := &page{colored: hasColor(t.Out)}
	var rows [][]string
	for _, line := range append(strings.Split(text, "\n"), "") {
		if line != "" {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\t"), "\t"))
			continue
		}
		if len(rows) > 0 {
			t.print(p, rows, Width(t.Out))
		}
		p.text.WriteByte('\n')
		rows = nil
	}
	return p.print(t.Out)
}

// gap is the space between two columns. minText is the minimum width of a wrapped column of a table with names of columns.
const (
	gap     = 2
	minText = 20
)

// noValue is the text of a cell without a value. Lists leave it out.
const noValue = "-"

// print formats the rows of one table for a width, 0 for any.
func (t *Table) print(p *page, rows [][]string, width int) {
	widths := columnWidths(rows)
	last := len(widths) - 1
	if all := total(widths); width > 0 && all > width {
		widths[last] -= all - width
		if !t.Plain && widths[last] < minText {
			if turned := transpose(rows); total(columnWidths(turned)) <= width {
				t.print(p, turned, 0)
			} else {
				t.printLists(p, rows, width)
			}
			return
		}
	}
	for i, row := range rows {
		var text []string
		if len(row) > last {
			text = Wrap(row[last], max(widths[last], minText/2), width > 0)
		}
		for j := range max(len(text), 1) {
			for c, w := range widths {
				cell := ""
				switch {
				case c == last && j < len(text):
					cell = text[j]
				case c < last && c < len(row) && j == 0:
					cell = row[c]
				}
				p.cell(cell, t.color(cell, i), w, t.Right, c < last)
			}
			p.endLine()
		}
	}
}

// printLists prints each row as a list: its first cell, and below it the other cells with the names of their columns. A row
// without a first cell continues the row before.
func (t *Table) printLists(p *page, rows [][]string, width int) {
	names := rows[0]
	indent := 0
	for _, n := range names[1:] {
		indent = max(indent, textWidth(strings.TrimSpace(n)))
	}
	for _, row := range rows[1:] {
		if first := strings.TrimSpace(row[0]); first != "" {
			p.cell(first, Bold, 0, false, false)
			p.endLine()
		}
		for c := 1; c < min(len(row), len(names)); c++ {
			for j, line := range Wrap(strings.TrimSpace(row[c]), max(width-indent-2*gap, minText/2), true) {
				if line == "" || line == noValue {
					continue
				}
				name := ""
				if j == 0 {
					name = strings.TrimSpace(names[c])
				}
				p.text.WriteString(strings.Repeat(" ", gap))
				p.cell(name, "", indent, false, true)
				p.cell(line, t.color(line, 1), 0, false, false)
				p.endLine()
			}
		}
	}
}

// color returns the colour of a cell.
func (t *Table) color(cell string, row int) Color {
	if row == 0 && !t.Plain {
		return Bold
	}
	return t.Colors[cell]
}

// columnWidths returns the width of the widest cell of each column.
func columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for c, cell := range row {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], textWidth(cell))
		}
	}
	return widths
}

// total returns the width of a table.
func total(widths []int) int {
	sum := gap * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

// transpose returns a table with the rows as columns.
func transpose(rows [][]string) [][]string {
	turned := make([][]string, len(rows[0]))
	for c := range turned {
		for _, row := range rows {
			cell := ""
			if c < len(row) {
				cell = row[c]
			}
			turned[c] = append(turned[c], cell)
		}
	}
	return turned
}

// page is formatted text with the control sequences of its colours.
type page struct {
	colored bool
	text    strings.Builder
	blanks  int // spaces that are written before the next text, so that no line ends with them
}

// cell adds a cell with its padding, and a gap to the next one.
func (p *page) cell(text string, c Color, width int, right, more bool) {
	text = strings.TrimRight(clean(text), " ")
	padding := max(width-textWidth(text), 0)
	if right {
		p.blanks, padding = p.blanks+padding, 0
	}
	if text != "" {
		p.text.WriteString(strings.Repeat(" ", p.blanks))
		p.blanks = 0
		p.text.WriteString(paint(text, c, p.colored))
	}
	p.blanks += padding
	if more {
		p.blanks += gap
	}
}

func (p *page) endLine() {
	p.blanks = 0
	p.text.WriteByte('\n')
}

// print writes the text, which is cleaned already.
func (p *page) print(out io.Writer) error {
	text := strings.TrimSuffix(p.text.String(), "\n")
	if w, ok := out.(*Writer); ok {
		out = w.Raw()
	}
	_, err := io.WriteString(out, text)
	return err
}
