package books

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"

	book "debrief/playbook"
)

// logBook lists the changes of a playbook.
type logBook struct {
	cli.BookFlags
	Limit int  `help:"Maximum number of changes to list; 0 lists all." default:"20"`
	Names bool `help:"List only the changes that named a version."`
	JSON  bool `help:"Print JSON lines with all operations."`
}

// loggedDelta is a line of --json.
type loggedDelta struct {
	Label string `json:"label"`
	Chain string `json:"chain"`
	Bytes int    `json:"bytes"`
	book.Delta
}

// Help implements kong.HelpProvider.
func (*logBook) Help() string {
	return `Examples:

  debrief playbook log
  debrief playbook log --book support --limit 3
  debrief playbook log --names`
}

// Run implements the command.
func (l *logBook) Run(ctx context.Context, c *app.Common) error {
	b, err := l.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	list := &explain.Log{Limit: l.Limit, NamesOnly: l.Names}
	if err := b.Store.ReadLog(ctx, b.Name, list.Add); err != nil {
		return versions.LogError(err)
	}
	if l.JSON {
		for _, r := range list.Changes() {
			if err := cli.WriteJSON(console.Stdout, loggedDelta{r.Label(), fmt.Sprintf("%x", r.Chain), r.Size, r.Delta}); err != nil {
				return err
			}
		}
		return nil
	}
	w := console.NewTable(console.Stdout)
	console.Fprintf(w, "version\twhen\tby\tcovers\tchanges\n")
	for _, r := range list.Changes() {
		console.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Title(), r.Time.Local().Format(time.DateTime), console.OneLine(r.Author, 20), explain.CoverSummary(&r.Delta), explain.DeltaSummary(&r.Delta))
	}
	return w.Flush()
}
