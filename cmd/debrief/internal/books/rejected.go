package books

import (
	"cmp"
	"context"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/versions"
	"debrief/playbook/history"
)

// rejectedBook lists rejected proposals and removed bullets.
type rejectedBook struct {
	cli.BookFlags
	Limit int  `help:"Maximum number to list, newest ones; 0 lists all." default:"50"`
	JSON  bool `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*rejectedBook) Help() string {
	return `List rejected proposals and removed bullets, oldest first, each with the reason: rejected and duplicate proposals,
bullets that the Curator merged, quarantined or retired over the token budget, and edits that could not be applied.

Examples:

  debrief playbook rejected
  debrief playbook rejected --book support --limit 5
  debrief playbook rejected --limit 0 --json`
}

// Run implements the command.
func (r *rejectedBook) Run(ctx context.Context, c *app.Common) error {
	b, err := r.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	losses, err := history.Rejections(b.Store.History(ctx, b.Name))
	if err != nil {
		return versions.LogError(err)
	}
	shown, older := cli.Last(losses, r.Limit)
	if r.JSON {
		for _, l := range shown {
			if err := cli.WriteJSON(console.Stdout, l); err != nil {
				return err
			}
		}
		return nil
	}
	if len(losses) == 0 {
		console.Printf("No proposals or bullets were rejected, merged or removed.\n")
		return nil
	}
	w := console.NewTable(console.Stdout)
	console.Fprintf(w, "version\twhen\tkind\toperation\tbullet\treason\ttext\n")
	for _, l := range shown {
		console.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Version, l.Time.Local().Format(time.DateTime), l.Verdict, l.Op.Kind, cmp.Or(l.Op.Bullet, l.DuplicateOf), l.Reason, console.OneLine(l.Op.Content, 120))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if older > 0 {
		console.Printf("%d older entries are not listed; --limit 0 lists all.\n", older)
	}
	return nil
}
