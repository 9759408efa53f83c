// Package request turns requests into events: reports, tasks, edits and feedback. It submits tasks, edits and feedback, and waits for their
// results. It computes the edits of the operator: changes of single bullets, imports, the copy of a playbook, the promotion of a run, the
// approval and rejection of bullets in quarantine, and the preview of forgetting. It retries nothing. The caller sets the timeout of a task
// and of feedback.
package request

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
)

// PerEdit is the maximum number of bullets in one edit. The bullets of an edit become visible at once.
const PerEdit = 10_000

// Edit submits an edit and waits for the decision of the Curator. If the Curator refused the edit, Edit returns the
// decision and a *events.RefusedError. Other errors come without a decision: *bus.DeadLetterError, bus.ErrDuplicate, or the
// error of ctx, after which the edit stays stored.
func Edit(ctx context.Context, conn *bus.Conn, e *events.Edit, o bus.PublishOptions) (*events.EditReply, error) {
	d, err := bus.Request[events.EditReply](ctx, conn, e, o)
	if err != nil {
		return nil, err
	}
	return d, d.Err()
}

// Task submits a task and waits for its execution. It also returns the reply, which has the handle of the execution and
// the trace of the task. Errors are *bus.DeadLetterError, bus.ErrDuplicate, or the error of ctx, after which the task stays
// stored.
func Task(ctx context.Context, conn *bus.Conn, t *events.Task, o bus.PublishOptions) (*events.Execution, *bus.Reply, error) {
	reply, err := conn.Request(ctx, t, o)
	if err != nil {
		return nil, nil, err
	}
	e := new(events.Execution)
	if err := reply.Decode(e); err != nil {
		return nil, nil, err
	}
	return e, reply, nil
}

// Timeouts for the decision of the Curator. After a timeout the edit stays in its stream, and the next Curator applies it.
const (
	timeout     = 5 * time.Second
	bulkTimeout = 2 * time.Minute // for edits of more than bulkOps operations, and for edits that read a whole log

	bulkOps = 100
)

// NoReplyError is returned if no Curator decided on an edit in time. The edit stays stored.
type NoReplyError struct{ After time.Duration }

func (e *NoReplyError) Error() string {
	return fmt.Sprintf("no curator replied in %s: the edit is stored, and the next curator applies it", e.After)
}

// SubmitEdit is Edit with a timeout for the decision of the Curator, for commands. If the Curator refused the edit, it returns the decision and a
// *events.RefusedError with the exit code ExitRefused. If no curator replied in time, the error is a *NoReplyError.
func SubmitEdit(ctx context.Context, conn *bus.Conn, e *events.Edit, o bus.PublishOptions) (*events.EditReply, error) {
	limit := timeout
	readsLog := e.Restore != nil || e.Forget != nil || e.Fork != nil || e.Rebuild || len(e.Redact) > 0 // each edit of a fork reads the log of the origin
	if readsLog || len(e.Ops) > bulkOps {
		limit = bulkTimeout
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d, err := Edit(wait, conn, e, o)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, program.Exit(program.ExitUnreachable, &NoReplyError{After: limit})
	case errors.As(err, new(*events.RefusedError)), errors.As(err, new(*bus.DeadLetterError)):
		err = program.Exit(program.ExitRefused, err)
	}
	return d, err
}
