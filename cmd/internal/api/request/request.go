// Package request submits tasks, edits, feedback and requests for contexts, and waits for their results. It retries nothing
// and maps no error to an exit code. The caller sets the timeout of a task, an edit or feedback.
package request

import (
	"context"

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
