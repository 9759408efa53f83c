package ops

import (
	"context"
	"fmt"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/deadletters"
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
func (d *deadRequeue) Run(ctx context.Context, c *app.Common) error {
	s, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	var sum deadletters.Summary
	for _, id := range ids {
		r, err := deadletters.Requeue(ctx, s, id, d.All)
		if err != nil {
			if sum.Done > 0 && !d.JSON {
				console.Printf("Requeued %d of %d before an error.\n", sum.Done, len(ids))
			}
			return err
		}
		sum.Add(r)
		if err := d.report(r, len(ids)); err != nil {
			return err
		}
	}
	if !d.JSON && len(ids) != 1 {
		console.Printf("Requeued %s.\n", deadletters.Number(sum.Done))
	}
	return sum.Err()
}

// report prints the result for a letter. Of several letters it prints only those that were refused.
func (d *deadRequeue) report(r deadletters.Requeued, of int) error {
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
	Yes  bool `help:"Do not ask for confirmation."`
	JSON bool `help:"Print one JSON document."`
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
		if err := cli.Confirm(fmt.Sprintf("Drop %s? Their events are lost.", deadletters.Number(len(ids)))); err != nil {
			return err
		}
	}
	n, err := deadletters.Drop(ctx, s, ids, d.All)
	if err != nil {
		return err
	}
	if d.JSON {
		return cli.WriteJSON(console.Stdout, struct {
			Dropped int `json:"dropped"`
		}{n})
	}
	console.Printf("Dropped %s.\n", deadletters.Number(n))
	return nil
}
