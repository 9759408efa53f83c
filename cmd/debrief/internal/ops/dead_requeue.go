package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/operate"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
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

// Run implements the command.
func (d *deadRequeue) Run(ctx context.Context, c *program.Common) error {
	a, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer a.Close()
	var sum operate.RequeueSummary
	for _, id := range ids {
		r, err := d.requeue(ctx, a, id)
		if err != nil {
			if sum.Done > 0 && !d.JSON {
				term.Printf("Requeued %d of %d before an error.\n", sum.Done, len(ids))
			}
			return err
		}
		sum.Add(*r)
		if err := d.report(*r, len(ids)); err != nil {
			return err
		}
	}
	if !d.JSON && len(ids) != 1 {
		term.Printf("Requeued %s.\n", operate.CountLetters(sum.Done))
	}
	return sum.Err()
}

// requeue requeues a letter. If this letter cannot be requeued, the result has the reason. The result has only the id for a letter of
// --all that is gone. An error means that the next letters cannot be requeued either.
func (d *deadRequeue) requeue(ctx context.Context, a *apiclient.Client, id events.Handle) (*operate.Requeued, error) {
	r, err := api.Post[operate.Requeued](ctx, a.Client, letterPath(id)+"/requeue", nil, struct{}{})
	var refused *api.Error
	switch {
	case err == nil:
		return r, nil
	case d.isGone(err):
		return &operate.Requeued{ID: id}, nil
	case errors.As(err, &refused) && refused.Code == api.CodeRefused:
		return &operate.Requeued{ID: id, Refused: strings.TrimPrefix(refused.Detail, "not requeued: ")}, nil
	}
	return nil, err
}

// report prints the result for one of so many letters. If there are several, it prints only those that were refused.
func (d *deadRequeue) report(r operate.Requeued, letters int) error {
	switch {
	case d.JSON:
		return cli.WriteJSON(term.Stdout, r)
	case r.Refused != "" && letters > 1:
		term.Printf("%s: not requeued: %s\n", r.ID, term.Line(r.Refused))
	case r.As != "" && letters == 1:
		kind, book, _ := events.ParseSubject(r.Subject)
		term.Printf("Requeued: the %s is now %s of playbook %q.\n", kind, r.As, book)
	}
	return nil
}

type deadDrop struct {
	letterSelection
	Yes  bool `help:"Do not ask for confirmation: scripts pass --yes."`
	JSON bool `help:"Print one JSON document."`
}

// Run implements the command.
func (d *deadDrop) Run(ctx context.Context, c *program.Common) error {
	a, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer a.Close()
	if !d.Yes && len(ids) > 0 {
		if err := cli.Confirm(fmt.Sprintf("Drop %s? Their events are lost.", operate.CountLetters(len(ids)))); err != nil {
			return err
		}
	}
	n := 0
	for _, id := range ids {
		r, err := api.Delete[api.Dropped](ctx, a.Client, letterPath(id))
		switch {
		case d.isGone(err):
			continue
		case err != nil:
			return err
		}
		n += r.Dropped
	}
	if d.JSON {
		return cli.WriteJSON(term.Stdout, struct {
			Dropped int `json:"dropped"`
		}{n})
	}
	term.Printf("Dropped %s.\n", operate.CountLetters(n))
	return nil
}
