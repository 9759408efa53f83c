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
	"debrief/cmd/internal/console"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"

	book "debrief/playbook"
)

// change are the flags of everything that changes a playbook. No command does so itself: it asks the Curator.
type change struct {
	onBook
	Author string `help:"Who asks for it. Default: $USER." placeholder:"NAME"`
	Reason string `help:"Why." placeholder:"TEXT"`
	JSON   bool   `help:"Print JSON."`
}

// How long a person waits for a Curator before it is said that there may be none, and at most where there is much to do.
// The edit stays stored either way.
const (
	editPatience = 5 * time.Second
	muchPatience = 2 * time.Minute
)

// ask hands in an edit and waits for the decision. A refusal is an error.
func (ch *change) ask(ctx context.Context, b *openBook, e *events.Edit) (*events.Decision, error) {
	e.Book, e.ID, e.Created = b.name, events.NewID(), time.Now().UTC()
	e.Author, e.Reason = cmp.Or(ch.Author, os.Getenv("USER"), "operator"), ch.Reason
	var d *events.Decision
	err := b.curated(ctx, func() (err error) {
		d, err = request(ctx, b.Conn, e, bus.Marks{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(d.Refused) == 0 {
		return d, nil
	}
	for _, is := range d.Conflicts {
		for _, was := range e.Expect {
			if was.Bullet == is.Bullet {
				console.Fprintf(console.Stderr, "%s", console.Block(conflict(was, is)))
			}
		}
	}
	return nil, app.Exit(app.ExitRefused, fmt.Errorf("%s; nothing was changed", strings.Join(d.Refused, "; ")))
}

// curated does what needs a Curator. Where nobody else works on the directory, one runs meanwhile in this process.
func (s *session) curated(ctx context.Context, do func() error) error {
	work, stop := context.WithCancel(ctx)
	working := make(chan error, 1)
	if s.server != nil {
		go func() { working <- app.Run(work, s.Conn, curator.New(nil, curator.Config{})) }()
	} else {
		close(working)
	}
	err := do()
	stop()
	if werr := <-working; err == nil {
		err = werr
	}
	return err
}

func request(ctx context.Context, conn *bus.Conn, e *events.Edit, m bus.Marks) (*events.Decision, error) {
	patience := editPatience
	if len(e.Ops) > 100 || e.Restore != nil || e.Forget != nil || e.Rebuild {
		patience = muchPatience
		hint := time.AfterFunc(editPatience, func() {
			console.Fprintf(console.Stderr, "No curator has answered in %s. The edit is stored; it is safe to interrupt.\n", editPatience)
		})
		defer hint.Stop()
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := conn.Request(wait, e, m)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, app.Exit(app.ExitUnreachable, fmt.Errorf("no curator answered in %s: the edit is stored and will be done when one runs", patience))
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

// conflict shows what has changed since a person read a bullet.
func conflict(was, is events.Expectation) string {
	if is.Content == "" {
		return fmt.Sprintf("%s is gone; it said:\n%s", was.Bullet, marked("- ", was.Content))
	}
	text := fmt.Sprintf("%s has changed since it was read:\n", was.Bullet)
	if was.Section != is.Section {
		text += fmt.Sprintf("- section %s\n+ section %s\n", was.Section, is.Section)
	}
	if was.Content != is.Content {
		text += marked("- ", was.Content) + marked("+ ", is.Content)
	}
	return text
}

// marked is text with a mark before every line.
func marked(mark, text string) string {
	return mark + strings.ReplaceAll(text, "\n", "\n"+mark) + "\n"
}

// done says what a change came to.
func (ch *change) done(b *openBook, d *events.Decision, format string, args ...any) error {
	if ch.JSON {
		return writeJSON(console.Stdout, decided{b.name, d.Version, book.Label(d.Version, d.Chain), d.Added, d.Changed})
	}
	if format != "" {
		console.Printf(format+"\n", args...)
	}
	console.Printf("Playbook %q is at version %s.\n", b.name, book.Label(d.Version, d.Chain))
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

// bulletArg is a bullet's id as people copy it from a prompt.
type bulletArg string

func (a bulletArg) id() book.BulletID { return book.BulletID(strings.Trim(string(a), "[] ")) }

func ids(args []bulletArg) []book.BulletID {
	out := make([]book.BulletID, len(args))
	for i, a := range args {
		out[i] = a.id()
	}
	return out
}

// expect is how bullets were at a point, for an edit to be refused when they have changed since.
func (b *openBook) expect(ctx context.Context, point string, ids ...book.BulletID) ([]events.Expectation, error) {
	p, label, err := b.at(ctx, point)
	if err != nil {
		return nil, err
	}
	var all []events.Expectation
	for _, id := range ids {
		was := p.Bullet(id)
		if was == nil {
			return nil, app.Exit(app.ExitRefused, fmt.Errorf("bullet %q is not in the playbook at version %s", id, label))
		}
		all = append(all, events.Expectation{Bullet: id, Section: was.Section, Content: was.Content})
	}
	return all, nil
}
