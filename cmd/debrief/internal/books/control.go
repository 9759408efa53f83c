package books

import (
	"context"
	"fmt"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

// control shows or sets the control share.
type control struct {
	change
	Share string `arg:"" optional:"" help:"New share, such as 5%, or off. Default: only show it." placeholder:"SHARE"`
}

// Help implements kong.HelpProvider.
func (*control) Help() string {
	return `A control share answers whether the playbook helps. A random part of the sessions gets no advice, and their outcomes
are compared with those of the other sessions: 'debrief report' has the answer. It is off by default, and at most 50%.

The price: the sessions of the control group work as if there were no playbook. They are still recorded and learned from.

A session stays in its group, with all its runs and sub-agents that name the session. Evaluation, training and calls that are only
observed have no group. Each execution records its group and the share; with the share off, it has none. Switching off ends the
control group at once.

Examples:

  debrief playbook control
  debrief playbook control 5% --book support
  debrief playbook control off --reason "the answer is known"`
}

// Run implements the command.
func (s *control) Run(ctx context.Context, c *program.Common) error {
	if s.Share != "" {
		return s.edit(ctx, c, apiclient.Create, &api.EditRequest{Control: book.Share(s.Share)}, func(*api.EditReply) string {
			return fmt.Sprintf("The control share is %s.", s.Share)
		})
	}
	g, err := apiclient.Get[api.GateState](ctx, c, s.Flags, s.Path("gate"), map[string]string{"limit": "1"})
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.WriteJSON(term.Stdout, struct {
			Book    book.Book  `json:"book"`
			Label   string     `json:"label"`
			Control book.Share `json:"control"`
		}{g.Book, g.Label, g.Control})
	}
	term.Printf("The control share of playbook %q at version %s is %s.\n", g.Book, g.Label, g.Control)
	return nil
}
