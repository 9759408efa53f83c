package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// Source describes the recorded executions to reflect on. No task is run, and no reflector worker takes part, because
// the workers may use another prompt.
type Source struct {
	Book        playbook.Book // the playbook of the executions
	Reflect     func(context.Context, *events.Execution, events.Handle) (*events.Reflection, error)
	Concurrency int // concurrent reflections; 0 means 16

	tracker *tracker // of Book, if there is a test set
}

// sourceRange is the range of executions that the run found when it began. Later executions and expiry do not change
// which executions are learned from together.
type sourceRange struct {
	Upto    uint64 `json:"upto"`             // sequence of the last event
	Samples int    `json:"samples"`          // executions to learn from
	Version uint64 `json:"playbook_version"` // of the source playbook, for the comparison
}

// recordedSample is the position of the last round of a sample and the feedback on it.
type recordedSample struct {
	seq      uint64 // 0 if it has expired
	id       events.ID
	round    int
	place    int // in the order of the samples
	feedback []*events.Feedback
}

// runExecutions has a reflector analyse the executions of another playbook, in the order in which they were stored.
// The Curator learns from the reflections in the run's own playbook. The bullets shown at that time are not in that
// playbook, so no votes are counted.
func (r *run) runExecutions(ctx context.Context) error {
	samples, source, err := r.loadSource(ctx)
	if err != nil {
		return err
	}
	if r.Test != nil {
		if err := r.measureSource(ctx, source.Version); err != nil {
			return err
		}
	}
	r.epoch = 1
	train := report.Score{}
	for from := 0; from < len(samples); from += r.CurateEvery {
		score, err := r.reflectWindow(ctx, from/r.CurateEvery, samples[from:min(from+r.CurateEvery, len(samples))], from, len(samples))
		if err != nil {
			return err
		}
		train = addScores(train, score)
	}
	if err := r.gatherSkipped(ctx); err != nil {
		return err
	}
	now, err := r.bookAt(ctx, r.version)
	if err != nil {
		return err
	}
	e := report.Epoch{Epoch: 1, Train: finish(train), Book: now}
	if r.Validation != nil {
		if e.Validation, err = r.validate(ctx); err != nil {
			return err
		}
	}
	r.report.Epochs = append(r.report.Epochs, e)
	if r.OnEpoch != nil {
		r.OnEpoch(e)
	}
	if err := r.measureAfter(ctx); err != nil {
		return err
	}
	sourceBook, err := r.store.PlaybookAt(ctx, r.Source.Book, source.Version)
	if err != nil {
		return err
	}
	ownBook, err := r.store.PlaybookAt(ctx, r.book, r.best.Version)
	if err != nil {
		return err
	}
	r.report.Against = compare(ownBook, sourceBook)
	r.report.Against.Book = string(r.Source.Book)
	return nil
}

// measureSource measures the playbook of the recorded executions.
func (r *run) measureSource(ctx context.Context, version uint64) (err error) {
	if r.Source.tracker, err = openTracker(ctx, r.conn, r.Source.Book, r.Options); err != nil {
		return err
	}
	defer r.Source.tracker.close()
	r.Source.tracker.ended = r.tracker.ended
	r.report.Before, err = r.measure(ctx, r.Test, "playbook "+string(r.Source.Book), r.Source.Book, version)
	return err
}

// loadSource returns the samples of the run, as they were when the run began. Executions expire oldest first. Expired
// samples stay at the start of the list, so that the others keep their positions.
func (r *run) loadSource(ctx context.Context) ([]*recordedSample, *sourceRange, error) {
	source := r.state.sourceRange()
	if source == nil {
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
	if r.state.sourceRange() == nil {
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
	samples := map[string]*recordedSample{}
	read := func(kind events.Kind, take func(bus.Stored)) error {
		return r.conn.ReadStored(ctx, events.StreamExecutions, kind.Subject(r.Source.Book), func(s bus.Stored) error {
			if s.Seq > upto {
				return bus.ErrStop
			}
			if bus.Unreachable(s.Err) { // events that are invalid, not unreachable, are skipped
				return fmt.Errorf("read event %d: %w", s.Seq, s.Err)
			}
			take(s)
			return nil
		})
	}
	err := read(events.KindExecution, func(s bus.Stored) {
		e, ok := s.Event.(*events.Execution)
		if !ok || e.Purpose == events.Evaluate {
			return
		}
		sample := samples[e.TaskID]
		if sample == nil {
			sample = &recordedSample{round: -1}
			samples[e.TaskID] = sample
		}
		if e.Origin.Round > sample.round { // of equal rounds, the first one counts
			sample.seq, sample.id, sample.round = s.Seq, e.ID, e.Origin.Round
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
		seq, sample, err := f.Execution.Parse()
		if err != nil {
			return
		}
		if i, there := slices.BinarySearchFunc(all, seq, func(a *recordedSample, seq uint64) int { return cmp.Compare(a.seq, seq) }); there && sample(all[i].id) {
			all[i].feedback = append(all[i].feedback, f)
		}
	})
	return all, err
}

// reflectWindow has a batch of executions reflected on, and then has the Curator learn from all of them together.
func (r *run) reflectWindow(ctx context.Context, window int, samples []*recordedSample, from, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.phases[0] += time.Since(began) }()
	score, point := report.Score{}, report.Point{Epoch: 1, Set: Train}
	var err error
	if point.Book, err = r.bookAt(ctx, r.version); err != nil {
		return score, err
	}
	executions := make([]*events.Execution, len(samples))
	handles := make([]events.Handle, len(samples))
	lostReasons := make([]string, len(samples))
	done := make(chan struct{}, len(samples))
	err = forEach(len(samples), cmp.Or(r.Source.Concurrency, 16), func(i int) error {
		defer func() { done <- struct{}{}; r.progress("reflecting", from+len(done), total) }()
		if samples[i].seq == 0 {
			lostReasons[i] = "expired"
			return nil
		}
		e, err := r.conn.Find(ctx, events.StreamExecutions, samples[i].seq, func(id events.ID) bool { return id == samples[i].id })
		if errors.Is(err, bus.ErrNotFound) {
			lostReasons[i] = "expired"
			return nil
		}
		if err != nil {
			return err
		}
		executions[i] = e.(*events.Execution)
		for _, f := range samples[i].feedback {
			executions[i].Outcome, executions[i].Target = executions[i].Outcome.WithFeedback(f), cmp.Or(f.Target, executions[i].Target)
		}
		handles[i], err = r.storeReflection(ctx, executions[i], events.NewHandle(samples[i].seq, samples[i].id))
		if bad := (*reflectError)(nil); errors.As(err, &bad) {
			lostReasons[i], err = bad.Error(), nil
		}
		return err
	})
	if err != nil {
		return score, err
	}
	var reflections []events.Handle
	for i, e := range executions {
		f := sampleResult{reflection: handles[i], rounds: 1, lostReason: lostReasons[i]}
		sample := events.Task{ID: string(samples[i].id)}
		if e != nil {
			sample = events.Task{ID: e.TaskID, Question: e.Question, Target: e.Target}
			f.answer = &answer{text: events.TruncateBytes(e.Answer, maxAnswer), label: e.Outcome.Label, score: e.Outcome.Score, feedback: events.TruncateBytes(e.Outcome.Feedback, maxFeedback), version: e.Version}
		}
		if f.reflection != "" {
			reflections = append(reflections, f.reflection)
		}
		r.recordSample(Train, "executions", &sample, samples[i].place, &f, &score)
	}
	r.step += len(samples)
	if err := r.gather(ctx, window, reflections); err != nil {
		return score, err
	}
	point.Step, point.Score = r.step, finish(score)
	r.addPoint(point)
	r.state.setProgress(1, r.step, r.version)
	return score, nil
}

// reflectError is returned for an execution on which no attempt gave a usable reflection.
type reflectError struct{ err error }

func (e *reflectError) Error() string { return "not reflected on: " + e.err.Error() }

// storeReflection reflects on an execution and stores the reflection, held for a gathering edit. It returns the
// handle of a reflection that is stored already.
func (r *run) storeReflection(ctx context.Context, old *events.Execution, h events.Handle) (events.Handle, error) {
	e := *old
	e.Book, e.ID = r.book, events.ExecutionID(r.book, old.TaskID, old.Origin.Round)
	e.Origin.Held, e.Origin.Run = true, r.Name
	e.Shown, e.Cited, e.Manifest = nil, nil, nil
	r.tracker.mu.Lock()
	stored := r.tracker.reflected[e.ID]
	r.tracker.mu.Unlock()
	if stored != "" {
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
func (r *run) reflectWithRetry(ctx context.Context, e *events.Execution, h events.Handle) (*events.Reflection, error) {
	for attempt, backoff := 1, minReflectBackoff; ; backoff = min(2*backoff, maxReflectBackoff) {
		ref, err := r.Source.Reflect(ctx, e, h)
		switch {
		case err == nil:
			return ref, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case bus.IsUnavailable(err):
			if backoff == maxReflectBackoff && r.OnStall != nil {
				r.OnStall(events.RoleReflector)
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
