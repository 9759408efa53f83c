package edits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

// Timeouts for the decision of the Curator. After a timeout the edit stays in its stream, and the next Curator applies it.
const (
	timeout     = 5 * time.Second
	bulkTimeout = 2 * time.Minute // for many bullets, and for edits that read a whole log
)

// NoReplyError is returned if no Curator decided on an edit in time. The edit stays stored.
type NoReplyError struct {
	After   time.Duration
	Blocked string // reason why no Curator can apply it, if one is known
}

func (e *NoReplyError) Error() string {
	if e.Blocked != "" {
		return "no curator can apply the edit, which is stored: " + e.Blocked
	}
	return fmt.Sprintf("no curator replied in %s: the edit is stored, and the next curator applies it", e.After)
}

// Request submits an edit and waits for the decision of the Curator. If the Curator refused the edit, it returns the decision and a
// *events.RefusedError with the exit code ExitRefused. Without a decision the error is a *NoReplyError.
func Request(ctx context.Context, conn *bus.Conn, e *events.Edit, o bus.PublishOptions) (*events.EditReply, error) {
	limit := timeout
	readsLog := e.Restore != nil || e.Forget != nil || e.Fork != nil || e.Rebuild || len(e.Redact) > 0 // each edit of a fork reads the log of the origin
	if readsLog || len(e.Ops) > 100 {
		limit = bulkTimeout
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d, err := request.Edit(wait, conn, e, o)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, program.Exit(program.ExitUnreachable, &NoReplyError{After: limit, Blocked: conn.Consumers.Blocked(ctx, events.RoleCurator)})
	case errors.As(err, new(*events.RefusedError)), errors.As(err, new(*bus.DeadLetterError)):
		err = program.Exit(program.ExitRefused, err)
	}
	return d, err
}
