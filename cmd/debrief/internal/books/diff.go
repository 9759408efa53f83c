package books

import (
	"context"
	"fmt"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// diffBook compares two versions of a playbook.
type diffBook struct {
	apiclient.BookFlags
	From string `arg:"" help:"Old version." placeholder:"POINT"`
	To   string `arg:"" optional:"" help:"New version. Default: the newest." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print JSON lines, one for each bullet that differs, nothing if there are none."`
}

// Help implements kong.HelpProvider.
func (*diffBook) Help() string {
	return explain.VersionHelp + `

Examples:

  debrief playbook diff 12
  debrief playbook diff 24h newest
  debrief playbook diff before-import 17@ab12cd`
}

// Run implements the command.
func (d *diffBook) Run(ctx context.Context, c *program.Common) error {
	diff, err := apiclient.Get[api.Difference](ctx, c, d.Flags, d.Path("diff"), map[string]string{"from": d.From, "to": d.To})
	if err != nil {
		return err
	}
	if d.JSON {
		return cli.WriteLines(term.Stdout, diff.Items)
	}
	_, err = term.Println(term.Block(explain.Differences(diff.Items, fmt.Sprintf("(%s → %s)", diff.From, diff.To))))
	return err
}
