package reflector

import (
	"context"
	"errors"

	"debrief/events"
	"debrief/events/bus"
)

// done reports whether an earlier attempt has already stored the result of a delivery: the reflection, or the task of
// the next round.
func (w *worker) done(ctx context.Context, d *bus.Delivery) (bool, error) {
	var id events.ID
	switch e := d.Event.(type) {
	case *events.Feedback:
		seq, matches, err := e.Execution.Parse()
		if err != nil {
			return false, nil //nolint:nilerr // no execution has such a handle
		}
		found, err := w.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
		if errors.Is(err, bus.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		run, ok := found.(*events.Execution)
		if !ok {
			return false, nil
		}
		id = events.ReflectionID(run.SampleID(), e.ID, w.version)
	case *events.Execution:
		id = events.ReflectionID(e.SampleID(), "", w.version)
		if w.hasNextRound(e) {
			if next, err := w.nextRoundStored(ctx, e, d); next || err != nil {
				return next, err
			}
		}
	default:
		return false, nil
	}
	return w.conn.Events.Has(ctx, events.StreamReflections, events.KindReflection.Subject(d.Event.InBook()), d.Stored, id)
}

// nextRoundStored reports whether the task of the execution's next round is stored, or its execution.
func (w *worker) nextRoundStored(ctx context.Context, e *events.Execution, d *bus.Delivery) (bool, error) {
	t := &events.Task{Book: e.Book, ID: e.RunID, Owner: e.Owner, Origin: e.Origin}
	t.Origin.Round++
	stored, err := w.conn.Events.Has(ctx, events.StreamTasks, events.RoundSubject(e.Book, e.Owner), d.Stored, t.EventID())
	if stored || err != nil {
		return stored, err
	}
	id := events.ExecutionID(t.Book, t.Owner, t.ID, t.Origin.Round)
	return w.conn.Events.Has(ctx, events.StreamExecutions, events.KindExecution.Subject(e.Book), d.Stored, id)
}
