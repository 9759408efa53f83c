package books

import (
	"context"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

type forkBook struct {
	apiclient.BookFlags
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
func (f *forkBook) Run(ctx context.Context, c *program.Common) error {
	a, err := f.Open(ctx, c, apiclient.Change, "")
	if err != nil {
		return err
	}
	defer a.Close()
	defer term.Doing("waiting for a curator")()
	out, err := api.Post[api.ForkReply](ctx, a.Client, f.Path("fork"), nil, &api.ForkRequest{To: book.Book(f.To), At: f.At})
	switch {
	case err != nil:
		return err
	case f.JSON:
		return cli.WriteJSON(term.Stdout, out)
	case out.Version == 0:
		_, err = term.Printf("Playbook %q at version %s is empty: there is nothing to copy.\n", out.From, out.At)
	default:
		_, err = term.Printf("Playbook %q is a copy of %q at version %s: %s.\n", out.Book, out.From, out.At, term.Plural(out.Bullets, "bullet"))
	}
	return err
}
