package books

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// change has the flags of the commands that change a playbook. They send an edit to the Curator, the only writer.
type change struct {
	cli.BookFlags
	Author string `help:"Author of the change, for the log. Default: $USER." placeholder:"NAME"`
	Reason string `help:"Reason of the change, for the log." placeholder:"TEXT"`
	JSON   bool   `help:"Print one JSON document."`
}

// ask submits an edit and waits for the decision. If the Curator refuses the edit, ask prints the bullets that have
// changed and returns an error.
func (ch *change) ask(ctx context.Context, b *cli.Playbook, e *events.Edit) (*events.EditReply, error) {
	e.Book, e.ID, e.Created = b.Name, events.NewID(), time.Now().UTC()
	e.Author, e.Reason = cli.Author(ch.Author), ch.Reason
	var d *events.EditReply
	err := b.WithCurator(ctx, func() (err error) {
		d, err = cli.RequestEdit(ctx, b.Conn, e, bus.PublishOptions{})
		return err
	})
	if !errors.As(err, new(*events.RefusedError)) {
		return d, err
	}
	for _, text := range explain.Conflicts(e.Expect, d.Conflicts) {
		console.Fprintf(console.Stderr, "%s", console.Block(text))
	}
	return nil, app.Exit(app.ExitRefused, fmt.Errorf("%w; nothing was changed", err))
}

// done prints the result of a change: JSON, or the formatted text (if any) and the new version.
func (ch *change) done(b *cli.Playbook, d *events.EditReply, format string, args ...any) error {
	if ch.JSON {
		return cli.WriteJSON(console.Stdout, decided{b.Name, d.Version, book.VersionLabel(d.Version, d.Chain), d.Added, d.Changed})
	}
	if format != "" {
		console.Printf(format+"\n", args...)
	}
	console.Printf("Playbook %q is at version %s.\n", b.Name, book.VersionLabel(d.Version, d.Chain))
	return nil
}

// decided is the output of --json.
type decided struct {
	Book    book.Book       `json:"book"`
	Version uint64          `json:"version"`
	Label   string          `json:"label"`
	Added   []book.BulletID `json:"added,omitempty"`
	Changed int             `json:"changed"`
}

// bulletArg is a bullet id on the command line. Brackets are allowed, as in a copy from a prompt.
type bulletArg string

func (a bulletArg) id() book.BulletID { return book.BulletID(strings.Trim(string(a), "[] ")) }

func ids(args []bulletArg) []book.BulletID {
	out := make([]book.BulletID, len(args))
	for i, a := range args {
		out[i] = a.id()
	}
	return out
}
