package books

import (
	"context"
	"fmt"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/edits"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

// promoteBook copies the changes of a run into another playbook.
type promoteBook struct {
	apiclient.Flags
	From   string `arg:"" name:"run" help:"Name of the run and of its playbook." placeholder:"RUN"`
	To     string `help:"Playbook to change." required:"" placeholder:"BOOK"`
	At     string `help:"Version of the run's playbook. Default: the one named best, else the newest." placeholder:"POINT"`
	Merge  bool   `help:"If the playbook has changed since the fork, apply only the changes without a conflict."`
	DryRun bool   `help:"Only show the changes."`
	Author string `help:"Author of the change, for the log. Default: $USER." placeholder:"NAME"`
	Reason string `help:"Reason of the change, for the log. Default: the run and its version." placeholder:"TEXT"`
	JSON   bool   `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*promoteBook) Help() string {
	return `A run over a data set has a separate playbook. This command shows the changes of the run and applies them to another
playbook as one change. New bullets keep their votes. Bullets in both playbooks get the run's text, section, status and
pin, and keep their own votes. Bullets that the run removed are removed.

If the playbook has changed since the run began, nothing is changed, the bullets are listed, and the exit code is 3. With
--merge, the playbook keeps its own changes and gets the others.

` + explain.VersionHelp + `

Examples:

  debrief playbook promote run-1 --to default --dry-run
  debrief playbook promote run-1 --to default --at 17@ab12cd --merge`
}

// Run implements the command.
func (p *promoteBook) Run(ctx context.Context, c *program.Common) error {
	if err := book.Book(p.To).Validate(); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--to: %w", err))
	}
	if p.From == p.To {
		return program.Exit(program.ExitUsage, fmt.Errorf("--to: %s is the playbook of the run: name another one", p.To))
	}
	access := apiclient.Create
	if p.DryRun {
		access = apiclient.Read
	}
	a, err := p.Open(ctx, c, access, p.Author)
	if err != nil {
		return err
	}
	defer a.Close()
	body := &api.PromoteRequest{Run: book.Book(p.From), At: p.At, Merge: p.Merge, Reason: p.Reason, DryRun: p.DryRun}
	plan, err := api.Post[edits.Promotion](ctx, a.Client, api.Path("books", p.To, "promote"), nil, body)
	if err != nil {
		return err
	}
	if p.JSON {
		err = cli.WriteJSON(term.Stdout, plan)
	} else {
		_, err = term.Printf("%s", term.Block(plan.Text()))
	}
	switch {
	case err != nil:
		return err
	case plan.NeedsMerge && !p.Merge:
		return program.Exit(program.ExitRefused, fmt.Errorf("playbook %q has changed since the run began (%s): nothing was changed; apply the other changes with --merge", p.To, plan.MovedIDs()))
	case p.JSON: // the document has the result
	case plan.Promoted:
		_, err = term.Printf("Playbook %q is at version %s.\n", p.To, plan.Label)
	default:
		_, err = term.Println("Nothing was changed.")
	}
	return err
}
