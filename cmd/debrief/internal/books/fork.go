package books

import (
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/versions"

	book "debrief/playbook"
)

type forkBook struct {
	cli.BookFlags
	To   string `arg:"" help:"Name of the new playbook." placeholder:"NEW"`
	At   string `help:"Version to copy: number, label, time or tag; see 'debrief playbook diff --help'." default:"newest" placeholder:"POINT"`
	JSON bool   `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*forkBook) Help() string {
	return `A fork is a copy of the bullets and the gate of a playbook at one version. Both playbooks then change independently. The
executions and the log of the source are not copied.

Examples:

  debrief playbook fork support-copy
  debrief playbook fork support-copy --book support --at 2026-11-20
  debrief playbook fork before --at 17@ab12cd`
}

// Run implements the command.
func (f *forkBook) Run(ctx context.Context, c *app.Common) error {
	to := book.Book(f.To)
	if err := to.Validate(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	b, err := f.OpenForChange(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	known, err := b.Store.BooksWithLog(ctx)
	if err != nil {
		return err
	}
	if slices.Contains(known, to) {
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q: already exists: choose another name", to))
	}
	at, err := b.Version(ctx, f.At)
	if err != nil {
		return err
	}
	var whole uint64
	err = b.WithCurator(ctx, func() (err error) {
		whole, err = cli.Fork(ctx, b.Session, b.Name, at, to)
		return err
	})
	if err != nil {
		return err
	}
	if f.JSON {
		return f.printJSON(ctx, b, at, whole)
	}
	if whole == 0 {
		console.Printf("Playbook %q at version %s is empty: there is nothing to copy.\n", b.Name, at.Label())
		return nil
	}
	p, err := b.Store.PlaybookAt(ctx, to, whole)
	if err != nil {
		return versions.LogError(err)
	}
	console.Printf("Playbook %q is a copy of %q at version %s: %s.\n", to, b.Name, at.Label(), console.Plural(p.Len(), "bullet"))
	return nil
}

// printJSON prints the versions of the source and of the copy. The version of the copy is 0 if there was nothing to copy.
func (f *forkBook) printJSON(ctx context.Context, b *cli.Playbook, at versions.Version, whole uint64) error {
	out := struct {
		Book    book.Book `json:"book"`
		Version uint64    `json:"version"`
		Bullets int       `json:"bullets"`
		From    book.Book `json:"from"`
		At      string    `json:"at"` // label of the copied version
	}{Book: book.Book(f.To), Version: whole, From: b.Name, At: at.Label()}
	if whole > 0 {
		p, err := b.Store.PlaybookAt(ctx, out.Book, whole)
		if err != nil {
			return versions.LogError(err)
		}
		out.Bullets = p.Len()
	}
	return cli.WriteJSON(console.Stdout, out)
}
