package books

import (
	"context"
	"regexp"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

type whyBook struct {
	apiclient.BookFlags
	What string `arg:"" help:"Id of a bullet, or handle of an execution, such as 412-ab12cd34." placeholder:"BULLET|EXECUTION"`
	Full bool   `help:"List all executions of each change and vote. Default: the first three."`
	JSON bool   `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*whyBook) Help() string {
	return `Explain a bullet or an execution. For a bullet: all changes of its text and its votes, with their reflections,
executions, outcomes, models and prompts. For an execution: the shown and cited bullets, the outcome and the lessons.
Executions and reflections expire; the log keeps a digest of each forever. Expired ones are marked.

Examples:

  debrief playbook why shr-00012
  debrief playbook why 412-ab12cd34 --json`
}

// executionHandle is the form of the handle of an execution. No bullet id of Debrief has this form.
var executionHandle = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Run implements the command.
func (w *whyBook) Run(ctx context.Context, c *program.Common) error {
	a, err := w.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	if executionHandle.MatchString(w.What) {
		return w.printExecution(ctx, a)
	}
	executions := "first"
	if w.Full || w.JSON {
		executions = "all"
	}
	x, err := api.Get[explain.Bullet](ctx, a.Client, w.Path("bullets", string(bulletArg(w.What).id()), "history"), map[string]string{"executions": executions})
	if err != nil {
		return err
	}
	return w.print(x, x.Text(w.Full))
}

// printExecution explains an execution. If no version covers it yet, the explanation has the work that waits (pending).
func (w *whyBook) printExecution(ctx context.Context, a *apiclient.Client) error {
	path, err := a.ExecutionPath(ctx, w.What, w.Book)
	if err != nil {
		return err
	}
	x, err := api.Get[explain.Execution](ctx, a.Client, path, map[string]string{"pending": "true"})
	if err != nil {
		return err
	}
	return w.print(x, x.Text())
}

// print prints an explanation: x as JSON, or its text.
func (w *whyBook) print(x any, text string) error {
	if w.JSON {
		return cli.WriteJSON(term.Stdout, x)
	}
	_, err := term.Printf("%s", term.Block(text))
	return err
}
