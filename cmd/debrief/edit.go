package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// editBook changes one bullet, through the Curator like every change.
type editBook struct {
	place
	Bullet  string `arg:"" help:"Id of the bullet."`
	Content string `help:"The new text." required:"" placeholder:"TEXT"`
	Book    string `help:"Which playbook." default:"default"`
	Author  string `help:"Who changes it. Default: $USER." placeholder:"NAME"`
	Reason  string `help:"Why." placeholder:"TEXT"`
	JSON    bool   `help:"Print JSON."`
}

// editPatience is how long a person waits for a Curator. The edit stays stored.
const editPatience = 5 * time.Second

// Run implements the command.
func (ed *editBook) Run(ctx context.Context, c *app.Common) error {
	name, err := bookName(ed.Book)
	if err != nil {
		return err
	}
	content, err := book.CleanContent(ed.Content)
	if err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--content: %w", err))
	}
	s, err := ed.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	work, stop := context.WithCancel(ctx)
	working := make(chan error, 1)
	if s.server != nil { // nobody else works on the directory
		go func() { working <- app.Run(work, s.Conn, curator.New(nil, curator.Config{})) }()
	} else {
		close(working)
	}
	decision, err := edit(ctx, s.Conn, name, &events.Edit{
		Author: cmp.Or(ed.Author, os.Getenv("USER"), "operator"), Reason: ed.Reason,
		Ops: []book.Op{{Kind: book.Update, Bullet: book.BulletID(strings.Trim(ed.Bullet, "[]")), Content: content}},
	})
	stop()
	if werr := <-working; err == nil {
		err = werr
	}
	if err != nil {
		return err
	}
	if len(decision.Refused) > 0 {
		return app.Exit(app.ExitRefused, errors.New(strings.Join(decision.Refused, "; ")))
	}
	if ed.JSON {
		return writeJSON(os.Stdout, decision)
	}
	fmt.Printf("playbook %q is at version %d\n", name, decision.Version)
	return nil
}

// edit asks the Curator for a change and waits for its decision.
func edit(ctx context.Context, conn *bus.Conn, b book.Book, e *events.Edit) (*events.Decision, error) {
	e.Book, e.ID, e.Created = b, events.NewID(), time.Now().UTC()
	wait, cancel := context.WithTimeout(ctx, editPatience)
	defer cancel()
	reply, err := conn.Request(wait, e, bus.Marks{})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, app.Exit(app.ExitUnreachable, fmt.Errorf("no curator answered in %s: the edit is stored and will be done when one runs", editPatience))
	}
	if err != nil {
		return nil, err
	}
	if reply.Refused != "" {
		return nil, app.Exit(app.ExitRefused, errors.New(reply.Refused))
	}
	d := new(events.Decision)
	if err := events.Unmarshal(reply.Data, d); err != nil {
		return nil, fmt.Errorf("read the decision: %w", err)
	}
	return d, nil
}
