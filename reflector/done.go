package reflector

import (
	"context"
	"errors"

	"debrief/events"
	"debrief/events/bus"
)

// done reports whether the result of an earlier attempt at a delivery is stored: the reflection, or the next round.
func (r *Reflector) done(ctx context.Context, conn *bus.Conn, d *bus.Delivery) (bool, error) {
	var id events.ID
	switch e := d.Event.(type) {
	case *events.Feedback:
		seq, is, err := e.Execution.Parse()
		if err != nil {
			return false, nil
		}
		found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
		if errors.Is(err, bus.ErrGone) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		id = events.ReflectionID(found.EventID(), e.ID, r.version)
	case *events.Execution:
		id = events.ReflectionID(e.Sample(), "", r.version)
		if r.goesOn(e) {
			if next, err := nextStored(ctx, conn, e, d); next || err != nil {
				return next, err
			}
		}
	default:
		return false, nil
	}
	return conn.Has(ctx, events.StreamReflections, events.KindReflection.Subject(d.Event.InBook()), d.Stored, id)
}

// nextStored reports whether the task of an execution's next round is stored, or its execution already.
func nextStored(ctx context.Context, conn *bus.Conn, e *events.Execution, d *bus.Delivery) (bool, error) {
	t := &events.Task{ID: e.TaskID, Origin: e.Origin}
	t.Origin.Round++
	t.Book = e.Book
	waits, err := conn.Has(ctx, events.StreamTasks, events.KindTask.Subject(e.Book), d.Stored, t.EventID())
	if waits || err != nil {
		return waits, err
	}
	id := events.ExecutionID(t.Book, t.ID, t.Origin.Round)
	return conn.Has(ctx, events.StreamExecutions, events.KindExecution.Subject(e.Book), d.Stored, id)
}
