package main

import (
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
)

type deadRequeue struct {
	chosen
	JSON bool `help:"Print JSON lines, one a letter."`
}

// Help implements kong.HelpProvider.
func (*deadRequeue) Help() string {
	return `The event is published again as it was, under its own id, and the letter goes once the server has stored it. Cut short in
between, requeue it again: it counts once. What nobody could handle, because it cannot be read or its payload has
expired, is refused and stays.

Examples:

  debrief dead requeue 12-ab12cd34 13-98fedcba
  debrief dead requeue --all --role reflector --since 2h`
}

// requeued is what became of one letter.
type requeued struct {
	ID      events.Handle `json:"id"`
	As      events.Handle `json:"as,omitempty"`
	Subject string        `json:"subject,omitempty"`
	Refused string        `json:"refused,omitempty"`
}

// Run implements the command.
func (d *deadRequeue) Run(ctx context.Context, c *app.Common) error {
	s, ids, err := d.find(ctx, c)
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
				console.Printf("Requeued %d of %d, then stopped.\n", done, len(ids))
			}
			return err
		}
		switch {
		case r.Refused != "":
			refused++
			last = fmt.Errorf("dead letter %s stays: %s", id, r.Refused)
		case r.As != "":
			done++
		}
		if err := d.tell(r, len(ids)); err != nil {
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
		return app.Exit(app.ExitRefused, fmt.Errorf("none could be requeued; see above"))
	}
	return app.Exit(app.ExitLosses, fmt.Errorf("%s could not be requeued and stay; see above", letters(refused)))
}

func letters(n int) string {
	if n == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", n)
}

// requeueOne requeues a letter. One of many that is gone by now is no error: somebody else was faster.
func requeueOne(ctx context.Context, s *session, id events.Handle, many bool) (requeued, error) {
	out := requeued{ID: id}
	l, err := letterByID(ctx, s, id)
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
	case ctx.Err() != nil, errors.As(err, &full), bus.Away(err):
		return out, err
	default:
		out.Refused = err.Error()
	}
	return out, nil
}

// tell prints what became of a letter; of many, only what did not work.
func (d *deadRequeue) tell(r requeued, of int) error {
	switch {
	case d.JSON:
		return writeJSON(console.Stdout, r)
	case r.Refused != "" && of > 1:
		console.Printf("%s stays: %s\n", r.ID, console.Line(r.Refused))
	case r.As != "" && of == 1:
		kind, book, _ := events.ParseSubject(r.Subject)
		console.Printf("Requeued: the %s is %s of book %q now.\n", kind, r.As, book)
	}
	return nil
}

type deadDrop struct {
	chosen
	Yes bool `help:"Do not ask."`
}

// Help implements kong.HelpProvider.
func (*deadDrop) Help() string {
	return `What a letter is about is not learned from, ever. A person is asked first; a script says --yes.

Examples:

  debrief dead drop 12-ab12cd34
  debrief dead drop --all --book scratch --yes`
}

// Run implements the command.
func (d *deadDrop) Run(ctx context.Context, c *app.Common) error {
	s, ids, err := d.find(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	if !d.Yes && len(ids) > 0 {
		if err := confirmed(fmt.Sprintf("Drop %s? What they are about is lost.", letters(len(ids)))); err != nil {
			return err
		}
	}
	n := 0
	for _, id := range ids {
		l, err := letterByID(ctx, s, id)
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
