package replay

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// Source describes the recorded executions to reflect on. No task is run, and no reflector worker takes part, because
// the workers may use another prompt.
type Source struct {
	Book        playbook.Book // the playbook of the executions
	Reflect     func(context.Context, *events.Execution, events.Handle) (*events.Reflection, error)
	Concurrency int // concurrent reflections; 0 means 16
}

// runExecutions has a reflector analyse the executions of another playbook, in the order in which they were stored.
// The Curator learns from the reflections in the run's own playbook. The bullets shown at that time are not in that
// playbook, so no votes are counted.
func (r *run) runExecutions(ctx context.Context) error {
	reader := sourceReader{run: r.Name, book: r.Source.Book, conn: r.conn, store: r.store, state: r.state}
	samples, source, err := reader.load(ctx)
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
	reflector := &sourceReflector{Source: r.Source, run: r.Name, total: len(samples), conn: r.conn, book: r.book, tracker: r.tracker, onStall: r.OnStall}
	for from := 0; from < len(samples); from += r.CurateEvery {
		score, err := r.reflectWindow(ctx, reflector, samples[from:min(from+r.CurateEvery, len(samples))], from, len(samples))
		if err != nil {
			return err
		}
		train = train.Plus(score)
	}
	if err := r.gatherer.retrySkipped(ctx); err != nil {
		return err
	}
	now, err := r.log.bookAt(ctx, *r.position)
	if err != nil {
		return err
	}
	e := report.Epoch{Epoch: 1, Train: train.Finish(), Book: now}
	if r.Validation != nil {
		if e.Validation, err = r.measurer.validate(ctx); err != nil {
			return err
		}
	}
	r.recorder.addEpoch(e)
	if err := r.measurer.after(ctx); err != nil {
		return err
	}
	sourceBook, err := r.store.PlaybookAt(ctx, r.Source.Book, source.Version)
	if err != nil {
		return err
	}
	ownBook, err := r.store.PlaybookAt(ctx, r.book, r.measurer.best.Version)
	if err != nil {
		return err
	}
	against := compare(ownBook, sourceBook)
	against.Book = string(r.Source.Book)
	r.recorder.report.Against = against
	return nil
}

// measureSource measures the playbook of the recorded executions.
func (r *run) measureSource(ctx context.Context, version uint64) error {
	source, err := openSubmitter(ctx, r.conn, r.Source.Book, r.Options)
	if err != nil {
		return err
	}
	defer source.tracker.close()
	source.ended = r.submitter.ended
	r.recorder.report.Before, err = r.measurer.measure(ctx, r.Test, "playbook "+string(r.Source.Book), source, version)
	r.sourceUsage, _, _ = source.tracker.usage()
	return err
}

// reflectWindow has a batch of executions reflected on, and then has the Curator learn from all of them together.
func (r *run) reflectWindow(ctx context.Context, reflector *sourceReflector, samples []*recordedSample, from, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.recorder.learning += time.Since(began) }()
	score := report.Score{}
	book, err := r.log.bookAt(ctx, *r.position)
	if err != nil {
		return score, err
	}
	results := make([]reflectResult, len(samples))
	done := make(chan struct{}, len(samples))
	reflecting, reflectCtx := errgroup.WithContext(ctx)
	reflecting.SetLimit(cmp.Or(r.Source.Concurrency, 16))
	for i := range samples {
		reflecting.Go(func() (err error) {
			defer func() { done <- struct{}{}; r.recorder.progress("reflecting", from+len(done), total) }()
			results[i], err = reflector.reflect(reflectCtx, samples[i])
			return err
		})
	}
	if err := reflecting.Wait(); err != nil {
		return score, err
	}
	var reflections []events.Handle
	for i := range results {
		f := sampleResult{reflection: results[i].handle, rounds: 1, lostReason: results[i].lostReason}
		sample := events.Task{ID: string(samples[i].id)}
		if e := results[i].execution; e != nil {
			sample = events.Task{ID: e.RunID, Question: e.Question, Target: e.Target}
			f.answer = newAnswer(0, e)
		}
		if f.reflection != "" {
			reflections = append(reflections, f.reflection)
		}
		r.recorder.addSample(Train, "executions", &sample, samples[i].place, &f, &score)
	}
	r.step += len(samples)
	if err := r.gatherer.gather(ctx, from/r.CurateEvery, reflections); err != nil {
		return score, err
	}
	r.recorder.endWindow(book, score)
	return score, r.snapshot(ctx, len(samples))
}
