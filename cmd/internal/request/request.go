// Package request submits tasks, edits, feedback and requests for contexts, and waits for their results. It retries nothing
// and maps no error to an exit code. The caller sets the timeout of a task, an edit or feedback.
package request

import (
	"context"
	"fmt"

	"debrief/events"
	"debrief/events/bus"
)

// PerEdit is the maximum number of bullets in one edit. The bullets of an edit become visible at once.
const PerEdit = 10_000

// DeadLetterError is returned when a worker dead-lettered the task or edit.
type DeadLetterError struct {
	Kind   events.Kind
	ID     events.ID // event id
	Reason string    // of the dead letter, for people
}

func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("%s %s: dead-lettered: %s", e.Kind, e.ID, e.Reason)
}

// Edit submits an edit and waits for the decision of the Curator. If the Curator refused the edit, Edit returns the
// decision and a *events.RefusedError. Other errors come without a decision: *DeadLetterError, bus.ErrDuplicate, or the
// error of ctx, after which the edit stays stored.
func Edit(ctx context.Context, conn *bus.Conn, e *events.Edit, o bus.PublishOptions) (*events.EditReply, error) {
	d := new(events.EditReply)
	if _, err := submit(ctx, conn, e, o, d); err != nil {
		return nil, err
	}
	return d, d.Err()
}

// Task submits a task and waits for its execution. It also returns the reply, which has the handle of the execution and
// the trace of the task. Errors are *DeadLetterError, bus.ErrDuplicate, or the error of ctx, after which the task stays
// stored.
func Task(ctx context.Context, conn *bus.Conn, t *events.Task, o bus.PublishOptions) (*events.Execution, *bus.Reply, error) {
	e := new(events.Execution)
	reply, err := submit(ctx, conn, t, o, e)
	if err != nil {
		return nil, nil, err
	}
	e.Book = t.Book
	return e, reply, nil
}

// submit publishes an event, waits for the reply and decodes it into result.
func submit(ctx context.Context, conn *bus.Conn, e events.Event, o bus.PublishOptions, result any) (*bus.Reply, error) {
	reply, err := conn.Request(ctx, e, o)
	if err != nil {
		return nil, err
	}
	if reply.Error != "" {
		return nil, &DeadLetterError{e.Kind(), e.EventID(), reply.Error}
	}
	if err := events.Unmarshal(reply.Data, result); err != nil {
		return nil, fmt.Errorf("decode the reply to %s %s: %w", e.Kind(), e.EventID(), err)
	}
	return reply, nil
}
