package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// sourceReflector reflects on recorded executions and stores the reflections in the playbook of the run.
type sourceReflector struct {
	Source
	run     string        // name of the run
	total   int           // recorded executions of the run
	book    playbook.Book // of the run
	conn    *bus.Conn
	tracker *tracker              // of the run's playbook
	onStall func(waitsFor string) // may be nil
}

// reflectResult is the result for one recorded sample.
type reflectResult struct {
	execution  *events.Execution // with its feedback; nil if it has expired
	handle     events.Handle     // of the reflection, or ""
	lostReason string            // reason why the reflection is missing
}

// reflect reads the execution of a sample and has a reflection on it stored. The error ends the run.
func (r *sourceReflector) reflect(ctx context.Context, sample *recordedSample) (result reflectResult, err error) {
	if sample.seq == 0 {
		return reflectResult{lostReason: "expired"}, nil
	}
	stored, err := r.conn.Events.Find(ctx, events.StreamExecutions, sample.seq, func(id events.ID) bool { return id == sample.id })
	if errors.Is(err, bus.ErrNotFound) {
		return reflectResult{lostReason: "expired"}, nil
	}
	if err != nil {
		return result, err
	}
	e := stored.(*events.Execution)
	for _, f := range sample.feedback {
		e.Outcome, e.Target = e.Outcome.WithFeedback(f), cmp.Or(f.Target, e.Target)
	}
	result.execution = e
	e.Origin.Step, e.Origin.Steps = sample.place+1, r.total // of this run, not of the run that made the execution
	result.handle, err = r.store(ctx, e, events.NewHandle(sample.seq, sample.id))
	if bad := (*reflectError)(nil); errors.As(err, &bad) {
		result.lostReason, err = bad.Error(), nil
	}
	return result, err
}

// reflectError is returned for an execution on which no attempt gave a usable reflection.
type reflectError struct{ err error }

func (e *reflectError) Error() string { return "not reflected on: " + e.err.Error() }

// store reflects on an execution and stores the reflection, held for a gathering edit. It returns the
// handle of a reflection that is stored already.
func (r *sourceReflector) store(ctx context.Context, old *events.Execution, h events.Handle) (events.Handle, error) {
	e := *old
	e.Book, e.ID = r.book, events.ExecutionID(r.book, "", old.RunID, old.Origin.Round)
	e.Origin.Held, e.Origin.Run = true, r.run
	e.Shown, e.Cited, e.Manifest = nil, nil, nil
	if stored := r.tracker.reflectionOn(e.ID); stored != "" {
		return stored, nil
	}
	ref, err := r.reflectWithRetry(ctx, &e, h)
	if err != nil {
		return "", err
	}
	ref.Book = r.book
	receipt, err := r.conn.Publish(ctx, ref, bus.PublishOptions{Repeat: true})
	if err != nil {
		return "", fmt.Errorf("store reflection on %s: %w", h, err)
	}
	return receipt.Handle, nil
}

// The number of attempts at an execution, as in the workers, and the back-off between them.
const (
	maxReflectAttempts = 5
	minReflectBackoff  = 50 * time.Millisecond
	maxReflectBackoff  = 10 * time.Second // while the model is unavailable
)

// reflectWithRetry calls the reflector. It retries without limit while the model is unavailable, so that no sample is
// lost.
func (r *sourceReflector) reflectWithRetry(ctx context.Context, e *events.Execution, h events.Handle) (*events.Reflection, error) {
	for attempt, backoff := 1, minReflectBackoff; ; backoff = min(2*backoff, maxReflectBackoff) {
		ref, err := r.Reflect(ctx, e, h)
		switch {
		case err == nil:
			return ref, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case bus.IsUnavailable(err):
			if backoff == maxReflectBackoff && r.onStall != nil {
				r.onStall(events.RoleReflector)
			}
		case attempt == maxReflectAttempts:
			return nil, &reflectError{err}
		default:
			attempt++
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(backoff):
		}
	}
}
