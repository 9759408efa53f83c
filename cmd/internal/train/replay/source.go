package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// sourceRange is the range of executions that were stored when the run began. A resumed run has the same samples and windows, also if more
// executions are stored since or some have expired.
type sourceRange struct {
	Upto    uint64 `json:"last"`             // sequence of the last event
	Samples int    `json:"samples"`          // executions to learn from
	Version uint64 `json:"playbook_version"` // of the source playbook, for the comparison
}

// recordedSample is a stored sample: the execution of its last round, and the feedback on it.
type recordedSample struct {
	seq      uint64 // of the execution; 0 if that has expired
	id       events.ID
	round    int
	place    int // in the list of all samples of the run, from 0
	feedback []*events.Feedback
}

// loadSource returns the samples that were stored when the run began. Executions expire oldest first. Samples that have expired since stay at
// the start of the list without content, so that the others keep their positions.
func (r *run) loadSource(ctx context.Context) ([]*recordedSample, *sourceRange, error) {
	source := r.state.sourceRange()
	isNew := source == nil
	if isNew {
		s, err := r.conn.JetStream().Stream(ctx, events.StreamExecutions)
		if err != nil {
			return nil, nil, fmt.Errorf("open stream %s: %w", events.StreamExecutions, err)
		}
		w, err := r.store.Writer(ctx, r.Source.Book)
		if err != nil {
			return nil, nil, err
		}
		source = &sourceRange{Upto: s.CachedInfo().State.LastSeq, Version: w.State().Playbook().Version()}
	}
	all, err := r.readSamples(ctx, source.Upto)
	if err != nil {
		return nil, nil, err
	}
	if isNew {
		if len(all) == 0 {
			return nil, nil, fmt.Errorf("playbook %q: no stored executions to learn from", r.Source.Book)
		}
		source.Samples = len(all)
		if err := r.state.setSourceRange(ctx, source); err != nil {
			return nil, nil, err
		}
	}
	if gone := source.Samples - len(all); gone > 0 {
		if r.state.ended {
			return nil, nil, &ExpiredError{r.Name}
		}
		expired := make([]*recordedSample, gone, source.Samples)
		for i := range expired {
			expired[i] = &recordedSample{id: "expired"}
		}
		all = append(expired, all...)
	}
	for i := range all {
		all[i].place = i
	}
	return all, source, nil
}

// readSamples returns the last round of every learning sample up to a sequence, with its feedback.
func (r *run) readSamples(ctx context.Context, upto uint64) ([]*recordedSample, error) {
	samples := map[string]*recordedSample{} // by the run id of the executions, which all rounds of a sample share
	read := func(kind events.Kind, add func(bus.Stored)) error {
		return r.conn.Events.Scan(ctx, events.StreamExecutions, kind.Subject(r.Source.Book), 1, func(s bus.Stored) error {
			if s.Seq > upto {
				return bus.ErrStop
			}
			if bus.Unreachable(s.Err) { // an invalid event has another error, and add ignores it
				return fmt.Errorf("read event %d: %w", s.Seq, s.Err)
			}
			add(s)
			return nil
		})
	}
	err := read(events.KindExecution, func(s bus.Stored) {
		e, ok := s.Event.(*events.Execution)
		if !ok || e.Purpose == events.Evaluate {
			return
		}
		sample := samples[e.RunID]
		if sample == nil {
			sample = &recordedSample{round: -1}
			samples[e.RunID] = sample
		}
		if e.Origin.Round > sample.round { // of several copies of a round, the first one counts
			sample.seq, sample.id = s.Seq, e.ID
			sample.round = e.Origin.Round
		}
	})
	if err != nil {
		return nil, err
	}
	all := slices.SortedFunc(maps.Values(samples), func(a, b *recordedSample) int { return cmp.Compare(a.seq, b.seq) })
	err = read(events.KindFeedback, func(s bus.Stored) {
		f, ok := s.Event.(*events.Feedback)
		if !ok {
			return
		}
		seq, matches, err := f.Execution.Parse()
		if err != nil {
			return
		}
		i, found := slices.BinarySearchFunc(all, seq, func(s *recordedSample, seq uint64) int { return cmp.Compare(s.seq, seq) })
		if found && matches(all[i].id) {
			all[i].feedback = append(all[i].feedback, f)
		}
	})
	return all, err
}

// reflectResult is the result for one recorded sample.
type reflectResult struct {
	execution  *events.Execution // with its feedback; nil if it has expired
	handle     events.Handle     // of the reflection, or ""
	lostReason string            // reason why the reflection is missing
}

// reflect reads the execution of a sample, reflects on it and stores the reflection. total is the number of samples of the run. If no reflection
// is possible, the result has the reason. An error ends the run.
func (r *run) reflect(ctx context.Context, sample *recordedSample, total int) (result reflectResult, err error) {
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
	if err := r.conn.Events.LoadAgent(ctx, e); err != nil {
		return result, err
	}
	for _, f := range sample.feedback {
		e.Outcome, e.Target = e.Outcome.WithFeedback(f), cmp.Or(f.Target, e.Target)
	}
	result.execution = e
	e.Origin.Step, e.Origin.Steps = sample.place+1, total // of this run, not of the run that made the execution
	result.handle, err = r.storeReflection(ctx, e, events.NewHandle(sample.seq, sample.id))
	if useless, ok := errors.AsType[*reflectError](err); ok {
		result.lostReason, err = useless.Error(), nil
	}
	return result, err
}

// reflectError is returned for an execution on which no attempt gave a usable reflection.
type reflectError struct{ err error }

func (e *reflectError) Error() string { return "not reflected on: " + e.err.Error() }

// storeReflection reflects on an execution and stores the reflection for the run's playbook, held for a gathering. It returns the handle of the
// reflection. If one is stored already, it returns that.
func (r *run) storeReflection(ctx context.Context, recorded *events.Execution, h events.Handle) (events.Handle, error) {
	e := *recorded
	e.Book, e.ID = r.book, events.ExecutionID(r.book, "", recorded.RunID, recorded.Origin.Round)
	e.Origin.Held, e.Origin.Run = true, r.Name
	e.Shown, e.Cited = nil, nil // bullets of another playbook
	e.Manifest = nil            // it lists these bullets
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

// The number of attempts at an execution, as in the workers, and the limits of the back-off between them.
const (
	maxReflectAttempts = 5
	minReflectBackoff  = 50 * time.Millisecond
	maxReflectBackoff  = 10 * time.Second
)

// reflectWithRetry calls the reflector. It returns a *reflectError after maxReflectAttempts attempts with a useless reply. Attempts while the
// model is unavailable do not count, so that an outage loses no sample.
func (r *run) reflectWithRetry(ctx context.Context, e *events.Execution, h events.Handle) (*events.Reflection, error) {
	failed := 0 // attempts with a useless reply
	for backoff := minReflectBackoff; ; backoff = min(2*backoff, maxReflectBackoff) {
		ref, err := r.Source.Reflect(ctx, e, h)
		switch {
		case err == nil:
			return ref, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !bus.IsUnavailable(err):
			failed++
			if failed == maxReflectAttempts {
				return nil, &reflectError{err}
			}
		case backoff == maxReflectBackoff:
			r.sendStall(events.RoleReflector)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(backoff):
		}
	}
}
