package ops

import (
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
)

type deadRequeue struct {
	letterSelection
	JSON bool `help:"Print JSON lines, one for each letter."`
}

// Help implements kong.HelpProvider.
func (*deadRequeue) Help() string {
	return `Publishes each event again, unchanged and under its own id, and deletes the letter after the server has stored the event. If
the command is interrupted, repeat it: the event counts once. A letter stays if its event is undecodable or its payload
has expired.

Examples:

  debrief dead requeue 12-ab12cd34 13-98fedcba
  debrief dead requeue --all --role reflector --since 2h`
}

// requeueResult is the result for one letter: requeued as a new message, refused, or (both empty) already gone.
type requeueResult struct {
	ID      events.Handle `json:"id"`
	As      events.Handle `json:"as,omitempty"`
	Subject string        `json:"subject,omitempty"`
	Refused string        `json:"refused,omitempty"`
}

// Run implements the command.
func (d *deadRequeue) Run(ctx context.Context, c *app.Common) error {
	s, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	done, refused := 0, 0
	var last error
	for _, id := range ids {
		r, err := requeueOne(ctx, s, id, d.All)
		if err != nil {
			if done > 0 && !d.JSON {
				console.Printf("Requeued %d of %d before an error.\n", done, len(ids))
			}
			return err
		}
		switch {
		case r.Refused != "":
			refused++
			last = fmt.Errorf("dead letter %s: not requeued: %s", id, r.Refused)
		case r.As != "":
			done++
		}
		if err := d.report(r, len(ids)); err != nil {
			return err
		}
	}
	if !d.JSON && len(ids) != 1 {
		console.Printf("Requeued %s.\n", letters(done))
	}
	switch {
	case refused == 0:
		return nil
	case len(ids) == 1:
		return app.Exit(app.ExitRefused, last)
	case done == 0:
		return app.Exit(app.ExitRefused, errors.New("no dead letter was requeued; see above"))
	}
	return app.Exit(app.ExitPartial, fmt.Errorf("%s not requeued; see above", letters(refused)))
}

// letters formats a number of dead letters.
func letters(n int) string { return cli.Plural(n, "dead letter") }

// requeueOne requeues a letter. With many, a missing letter is not an error: another process may have requeued it.
func requeueOne(ctx context.Context, s *cli.Session, id events.Handle, many bool) (requeueResult, error) {
	out := requeueResult{ID: id}
	l, err := findLetter(ctx, s, id)
	if err != nil {
		if many && app.ExitCode(err) == app.ExitRefused {
			return out, nil
		}
		return out, err
	}
	r, err := s.Requeue(ctx, l)
	var full *bus.FullError
	switch {
	case err == nil:
		out.As, out.Subject = r.Handle, l.Subject
	case ctx.Err() != nil, errors.As(err, &full), bus.IsUnavailable(err):
		return out, err
	default:
		out.Refused = err.Error()
	}
	return out, nil
}

// report prints the result for a letter. Of several letters it prints only those that were refused.
func (d *deadRequeue) report(r requeueResult, of int) error {
	switch {
	case d.JSON:
		return cli.WriteJSON(console.Stdout, r)
	case r.Refused != "" && of > 1:
		console.Printf("%s: not requeued: %s\n", r.ID, console.Line(r.Refused))
	case r.As != "" && of == 1:
		kind, book, _ := events.ParseSubject(r.Subject)
		console.Printf("Requeued: the %s is now %s of playbook %q.\n", kind, r.As, book)
	}
	return nil
}

type deadDrop struct {
	letterSelection
	Yes bool `help:"Do not ask for confirmation."`
}

// Help implements kong.HelpProvider.
func (*deadDrop) Help() string {
	return `The events of dropped letters are never learned from. The command asks for confirmation; scripts pass --yes.

Examples:

  debrief dead drop 12-ab12cd34
  debrief dead drop --all --book scratch --yes`
}

// Run implements the command.
func (d *deadDrop) Run(ctx context.Context, c *app.Common) error {
	s, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	if !d.Yes && len(ids) > 0 {
		if err := cli.Confirm(fmt.Sprintf("Drop %s? Their events are lost.", letters(len(ids)))); err != nil {
			return err
		}
	}
	n := 0
	for _, id := range ids {
		l, err := findLetter(ctx, s, id)
		if err != nil {
			if d.All && app.ExitCode(err) == app.ExitRefused {
				continue
			}
			return err
		}
		if err := s.Drop(ctx, l); err != nil {
			return err
		}
		n++
	}
	console.Printf("Dropped %s.\n", letters(n))
	return nil
}
