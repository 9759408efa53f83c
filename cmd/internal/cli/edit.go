package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/request"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
)

// Timeouts for the decision of the Curator: for a small edit, and for one that touches many bullets. After a timeout the
// edit stays in its stream, and the next Curator applies it.
const (
	editTimeout     = 5 * time.Second
	bulkEditTimeout = 2 * time.Minute
)

// WithCurator runs do, which needs a Curator. If this process runs the embedded server, it also runs a Curator meanwhile:
// no other process can connect.
func (s *Session) WithCurator(ctx context.Context, do func() error) error {
	work, stop := context.WithCancel(ctx)
	working := make(chan error, 1)
	if s.Server != nil {
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

// RequestEdit submits an edit and waits for the decision of the Curator. If the Curator refused the edit, it returns the
// decision and a *events.RefusedError with the exit code ExitRefused.
func RequestEdit(ctx context.Context, conn *bus.Conn, e *events.Edit, m bus.PublishOptions) (*events.EditReply, error) {
	defer console.Doing("waiting for a curator")()
	timeout := editTimeout
	if len(e.Ops) > 100 || e.Restore != nil || e.Forget != nil || e.Rebuild {
		timeout = bulkEditTimeout
		hint := time.AfterFunc(editTimeout, func() {
			console.Fprintf(console.Stderr, "No curator has replied in %s. The edit is stored: you can interrupt this command.\n", editTimeout)
		})
		defer hint.Stop()
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d, err := request.Edit(wait, conn, e, m)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		if blocked := conn.Blocked(ctx, events.RoleCurator); blocked != "" {
			return nil, app.Exit(app.ExitUnreachable, fmt.Errorf("no curator can apply the edit, which is stored: %s", blocked))
		}
		return nil, app.Exit(app.ExitUnreachable, fmt.Errorf("no curator replied in %s: the edit is stored, and the next curator applies it", timeout))
	}
	if errors.As(err, new(*events.RefusedError)) || errors.As(err, new(*request.DeadLetterError)) {
		err = app.Exit(app.ExitRefused, err)
	}
	return d, err
}

// Author returns the author of an edit or feedback: the name of the flag, or else the user of the shell.
func Author(name string) string { return cmp.Or(name, os.Getenv("USER"), "operator") }
