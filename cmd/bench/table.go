package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// table holds the results of one measurement. The title begins with the name of the measurement and a colon.
type table struct {
	Title  string
	Head   string   // names of the columns, each ended by a tab
	Rows   []string // cells, each ended by a tab
	Values []any    // of the rows, for JSON
}

// add adds a row: its value for JSON, and its cells, each ended by a tab.
func (t *table) add(v any, format string, args ...any) {
	t.Values = append(t.Values, v)
	t.Rows = append(t.Rows, fmt.Sprintf(format, args...))
}

// print writes the table, or each value as a line of JSON.
func (t *table) print(out io.Writer, asJSON bool) error {
	if asJSON {
		for _, v := range t.Values {
			if err := cli.WriteJSON(out, v); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	term.Fprintf(out, "\n%s\n", t.Title)
	term.Fprintln(w, term.Block(t.Head))
	for _, r := range t.Rows {
		term.Fprintln(w, term.Block(r))
	}
	return w.Flush()
}
