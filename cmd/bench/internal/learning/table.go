package learning

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// Table holds the results of one measurement. The title begins with the name of the measurement and a colon.
type Table struct {
	Title  string
	Head   string   // names of the columns, each ended by a tab
	Rows   []string // cells, each ended by a tab
	Values []any    // of the rows, for JSON
	Goals  []Goal
}

// Goal is a target value and the measured value.
type Goal struct {
	Part string `json:"part"`
	Goal string `json:"goal"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

// Row adds a row: its value for JSON, and its cells, each ended by a tab.
func (t *Table) Row(v any, format string, args ...any) {
	t.Values = append(t.Values, v)
	t.Rows = append(t.Rows, fmt.Sprintf(format, args...))
}

// Goal adds a goal with the measured value.
func (t *Table) Goal(met bool, text, format string, args ...any) {
	part, _, _ := strings.Cut(t.Title, ":")
	t.Goals = append(t.Goals, Goal{strings.ToLower(part), text, fmt.Sprintf(format, args...), met})
}

// Print writes the table, or each value and goal as a line of JSON.
func (t *Table) Print(out io.Writer, asJSON bool) error {
	if asJSON {
		for _, v := range t.Values {
			if err := cli.WriteJSON(out, v); err != nil {
				return err
			}
		}
		for _, g := range t.Goals {
			if err := cli.WriteJSON(out, g); err != nil {
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
	if err := w.Flush(); err != nil {
		return err
	}
	for _, g := range t.Goals {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		if _, err := term.Fprintf(out, "  goal: %s: %s, %s\n", g.Goal, g.Got, verdict); err != nil {
			return err
		}
	}
	return nil
}
