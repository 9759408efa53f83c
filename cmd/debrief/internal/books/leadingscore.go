package books

import (
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"

	book "debrief/playbook"
)

// leadingScore shows or sets the leading score.
type leadingScore struct {
	change
	Name string `arg:"" optional:"" help:"Name of the score. Default: only show it." placeholder:"NAME"`
	None bool   `help:"Choose none: the score that measures success counts, such as accuracy."`
}

// Help implements kong.HelpProvider.
func (*leadingScore) Help() string {
	return `An outcome may have several named scores, such as {"scores": {"accuracy": 1, "tone": 0.4}}. The leading score of the playbook counts, in
reports, feedback, headers of the gateway and files of 'debrief learn'. An outcome that has other named scores only is refused. Stored
outcomes stay as they are.

Examples:

  debrief playbook leading-score
  debrief playbook leading-score tone --book support
  debrief playbook leading-score --none`
}

// Run implements the command.
func (l *leadingScore) Run(ctx context.Context, c *program.Common) error {
	switch {
	case l.Name != "" && l.None:
		return program.Exit(program.ExitUsage, errors.New("NAME, --none: cannot be combined"))
	case l.Name == "" && !l.None:
		return l.show(ctx, c)
	}
	return l.edit(ctx, c, apiclient.Create, &api.EditRequest{LeadingScore: &l.Name}, func(*api.EditReply) string {
		if l.None {
			return "The playbook has no leading score."
		}
		return fmt.Sprintf("The leading score is %s.", l.Name)
	})
}

// show prints the leading score, which the API returns with the state of the gate.
func (l *leadingScore) show(ctx context.Context, c *program.Common) error {
	g, err := apiclient.Get[api.GateState](ctx, c, l.Flags, l.Path("gate"), map[string]string{"limit": "1"})
	switch {
	case err != nil:
		return err
	case l.JSON:
		return cli.WriteJSON(term.Stdout, struct {
			Book         book.Book `json:"book"`
			Label        string    `json:"label"`
			LeadingScore string    `json:"leading_score"`
		}{g.Book, g.Label, g.LeadingScore})
	case g.LeadingScore == "":
		term.Printf("Playbook %q at version %s has no leading score.\n", g.Book, g.Label)
	default:
		term.Printf("The leading score of playbook %q at version %s is %s.\n", g.Book, g.Label, g.LeadingScore)
	}
	return nil
}
