package books

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

type whyBook struct {
	cli.BookFlags
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

var executionHandle = regexp.MustCompile(`^[0-9]+-[0-9a-f]{8}$`)

// Run implements the command.
func (w *whyBook) Run(ctx context.Context, c *app.Common) error {
	if executionHandle.MatchString(w.What) { // no bullet id of Debrief has this form
		name, err := cli.ParseBook(w.Book)
		if err != nil {
			return err
		}
		s, err := w.ConnectReading(ctx, c.Logger())
		if err != nil {
			return err
		}
		defer s.Close()
		return w.execution(ctx, s.Playbook(name), events.Handle(w.What))
	}
	b, err := w.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	return w.bullet(ctx, b)
}

func (w *whyBook) bullet(ctx context.Context, b *cli.Playbook) error {
	x, err := explain.BulletOf(b.Name, b.Store.Log(ctx, b.Name), bulletArg(w.What).id())
	if errors.Is(err, history.ErrBulletNotFound) {
		return app.Exit(app.ExitRefused, fmt.Errorf("playbook %q: %w", b.Name, err))
	} else if err != nil {
		return err
	}
	stored := explain.NewStored(b.Conn)
	if w.JSON {
		if err := x.LoadExecutions(ctx, stored); err != nil {
			return err
		}
		return cli.WriteJSON(console.Stdout, x)
	}
	text, err := x.Text(ctx, stored, w.Full)
	if err != nil {
		return err
	}
	_, err = console.Printf("%s", console.Block(text))
	return err
}

func (w *whyBook) execution(ctx context.Context, b *cli.Playbook, handle events.Handle) error {
	effects := func(name playbook.Book, _ events.Handle) deltalog.Log { return b.Store.Log(ctx, name) }
	x, err := explain.ExecutionOf(ctx, b.Name, effects, explain.NewStored(b.Conn), handle)
	if errors.Is(err, explain.ErrExecutionNotFound) {
		return app.Exit(app.ExitRefused, err)
	} else if err != nil {
		return err
	}
	if w.JSON {
		return cli.WriteJSON(console.Stdout, x)
	}
	if err := x.LoadPending(ctx, b.Conn); err != nil {
		return err
	}
	_, err = console.Printf("%s", console.Block(x.Text()))
	return err
}
