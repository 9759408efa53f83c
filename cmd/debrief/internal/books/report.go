package books

import (
	"context"
	"errors"

	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/worth"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// Report compares the outcomes of sessions with a playbook and without.
type Report struct {
	apiclient.BookFlags
	JSON bool `help:"Print one JSON document."`
}

func (*Report) Help() string {
	return `Compare the sessions with the playbook with those of its control group: points, failures avoided, tokens, cost and time, each
with a 95 % interval. The intervals hold at all looks together: read the report as often as you like. Before there is enough data it
says how many outcomes are missing. It needs a control share; see 'debrief playbook control --help'.

The console has the same as a page for print: Worth.

The exit code is 1 if the playbook harms, else 0, also if nothing is known yet.

Examples:

  debrief report
  debrief report --book support
  debrief report --book support --json`
}

// errHarms is the error for the exit code after the report on a playbook that harms.
var errHarms = errors.New("the playbook harms")

func (cmd *Report) Run(ctx context.Context, c *program.Common) error {
	r, err := apiclient.Get[worth.Report](ctx, c, cmd.Flags, cmd.Path("worth"), nil)
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = cli.WriteJSON(term.Stdout, r)
	} else {
		err = printReport(r)
	}
	if err == nil && r.Status == worth.Harms {
		return errHarms
	}
	return err
}

func printReport(r *worth.Report) error {
	term.Printf("%s\n%s\n", r.Summary, r.Next)
	if r.Command != "" {
		term.Printf("\n  %s\n", r.Command)
	}
	for _, w := range r.Warnings {
		term.Printf("\nWarning: %s\n", w)
	}
	w := term.NewTable(term.Stdout)
	term.Fprintf(w, "\nmeasure\twith\twithout\teffect\tinterval\n")
	for _, row := range r.Rows() {
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", row.Name, row.With, row.Without, row.Effect, row.Interval)
	}
	term.Fprintf(w, "sessions\t%d\t%d\t\t\nwith an outcome\t%d\t%d\t\t\noutcomes\t%d\t%d\t\t\n",
		r.With.Sessions, r.Without.Sessions, r.With.Rated, r.Without.Rated, r.With.Outcomes, r.Without.Outcomes)
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Behind > 0 {
		term.Printf("The server still reads %d stored events: the numbers grow while it does.\n", r.Behind)
	}
	return nil
}
