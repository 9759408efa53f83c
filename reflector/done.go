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
		run, err := w.ratedRun(ctx, e)
		if run == nil || err != nil {
			return false, err
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

// ratedRun returns the execution that feedback is about, or nil if it does not exist.
func (w *worker) ratedRun(ctx context.Context, f *events.Feedback) (*events.Execution, error) {
	seq, matches, err := f.Execution.Parse()
	if err != nil {
		return nil, nil //nolint:nilerr // no execution has such a handle
	}
	found, err := w.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, nil
	}
	run, _ := found.(*events.Execution) // nil for another event
	return run, err
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
