package main

import (
	"context"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/playbook/history"
)

type rejectedBook struct {
	onBook
	Limit int  `help:"Most to list, the newest; 0 is all." default:"50"`
	JSON  bool `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*rejectedBook) Help() string {
	return `Lists what did not get into the playbook or was taken out of it, oldest first: proposals that were turned down or say
what a bullet says already, bullets that the Curator merged, retired over the token budget or quarantined, and edits that
could not be done, each with the reason.`
}

// Run implements the command.
func (r *rejectedBook) Run(ctx context.Context, c *app.Common) error {
	b, err := r.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	losses, err := history.Rejected(b.store.History(ctx, b.name))
	if err != nil {
		return broken(err)
	}
	shown := losses
	if r.Limit > 0 && len(shown) > r.Limit {
		shown = shown[len(shown)-r.Limit:]
	}
	if r.JSON {
		for _, l := range shown {
			if err := writeJSON(console.Stdout, l); err != nil {
				return err
			}
		}
		return nil
	}
	if len(losses) == 0 {
		console.Printf("Nothing was turned down, merged or taken out.\n")
		return nil
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	console.Fprintf(w, "version\twhen\twhat\toperation\tbullet\twhy\n")
	for _, l := range shown {
		id := l.Op.Bullet
		if id == "" {
			id = l.Same
		}
		console.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", l.Version, l.Time.Local().Format(time.DateTime), l.What, l.Op.Kind, id, l.Reason)
		if l.Op.Content != "" {
			console.Fprintf(w, "\t\t\t\t\t  %s\n", inLine(l.Op.Content, 120))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if n := len(losses) - len(shown); n > 0 {
		console.Printf("%d older ones are not listed; --limit 0 lists all.\n", n)
	}
	return nil
}
