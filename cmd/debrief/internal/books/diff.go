package books

import (
	"context"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"
	"debrief/playbook/history"
)

// diffBook compares two versions of a playbook.
type diffBook struct {
	cli.BookFlags
	From string `arg:"" help:"Old version." placeholder:"POINT"`
	To   string `arg:"" optional:"" help:"New version. Default: the newest." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print JSON lines, one for each bullet that differs."`
}

// Help implements kong.HelpProvider.
func (*diffBook) Help() string {
	return versions.Help + `

Examples:

  debrief playbook diff 12
  debrief playbook diff 24h newest
  debrief playbook diff before-import 17@ab12cd`
}

// Run implements the command.
func (d *diffBook) Run(ctx context.Context, c *app.Common) error {
	b, err := d.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	was, from, err := b.At(ctx, d.From)
	if err != nil {
		return err
	}
	is, to, err := b.At(ctx, d.To)
	if err != nil {
		return err
	}
	return showDifferences(history.Diff(was, is), fmt.Sprintf("(%s → %s)", from, to), d.JSON)
}

// showDifferences prints the differences as JSON lines, or as text with their number and the text in end.
func showDifferences(all []history.Difference, end string, asJSON bool) error {
	if asJSON {
		for _, d := range all {
			if err := cli.WriteJSON(console.Stdout, d); err != nil {
				return err
			}
		}
		return nil
	}
	console.Println(console.Block(explain.Differences(all, end)))
	return nil
}
