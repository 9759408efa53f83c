package books

import (
	"cmp"
	"context"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/edits"
	"debrief/cmd/internal/versions"
	"debrief/events"

	book "debrief/playbook"
)

// promoteBook copies the changes of a run into another playbook.
type promoteBook struct {
	cli.ServerFlags
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

` + versions.Help + `

Examples:

  debrief playbook promote run-1 --to default --dry-run
  debrief playbook promote run-1 --to default --at 17@ab12cd --merge`
}

// Run implements the command.
func (p *promoteBook) Run(ctx context.Context, c *app.Common) error {
	to := book.Book(p.To)
	if err := to.Validate(); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--to: %w", err))
	}
	if p.From == p.To {
		return app.Exit(app.ExitUsage, fmt.Errorf("--to: %s is the playbook of the run: name another one", p.To))
	}
	connect := p.Connect
	if p.DryRun {
		connect = p.ConnectReading
	}
	s, err := connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	target := s.Playbook(to)
	plan, err := edits.PlanPromotion(ctx, s.Conn, s.Playbook(book.Book(p.From)).Book, target.Book, p.At)
	if err != nil {
		return err
	}
	if !p.JSON {
		console.Printf("%s", console.Block(plan.Text()))
	}
	switch {
	case plan.NeedsMerge() && !p.Merge:
		if p.JSON {
			if err := cli.WriteJSON(console.Stdout, plan); err != nil {
				return err
			}
		}
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q has changed since the run began (%s): nothing was changed; apply the other changes with --merge",
			to, plan.MovedIDs()))
	case plan.IsEmpty() || p.DryRun:
		return p.done(plan, "Nothing was changed.")
	}
	ch := change{Author: p.Author, Reason: cmp.Or(p.Reason, plan.Reason())}
	err = plan.Submit(p.Merge, func(e *events.Edit) (*events.EditReply, error) { return ch.ask(ctx, target, e) })
	if err != nil {
		return err
	}
	return p.done(plan, fmt.Sprintf("Playbook %q is at version %s.", to, plan.Label))
}

// done prints the plan as JSON, else the text.
func (p *promoteBook) done(plan *edits.Promotion, text string) error {
	if p.JSON {
		return cli.WriteJSON(console.Stdout, plan)
	}
	console.Println(console.Block(text))
	return nil
}
