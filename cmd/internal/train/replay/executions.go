package replay

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

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
	from := 0
	err = r.learnEpoch(ctx, func(ctx context.Context) (window, error) {
		to := min(from+r.CurateEvery, len(samples))
		w, err := r.reflectWindow(ctx, samples, from, to)
		from = to
		return w, err
	})
	if err != nil {
		return err
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
func (r *run) measureSource(ctx context.Context, version uint64) error {
	source, err := openSubmitter(ctx, r.conn, r.Source.Book, r.Options)
	if err != nil {
		return err
	}
	defer source.tracker.close()
	source.ended = r.submitter.ended
	r.report.Before, err = r.measure(ctx, r.Test, "playbook "+string(r.Source.Book), source, version)
	r.sourceUsage, _, _ = source.tracker.usage()
	return err
}

// reflectWindow has the executions samples[from:to] reflected on, and then has the Curator learn from all of them together.
func (r *run) reflectWindow(ctx context.Context, samples []*recordedSample, from, to int) (window, error) {
	defer addTime(&r.learning, time.Now())
	w := window{samples: to - from}
	if w.samples == 0 {
		return w, nil
	}
	var err error
	if w.book, err = r.log.bookAt(ctx, r.position); err != nil {
		return w, err
	}
	results := make([]reflectResult, w.samples)
	done := make(chan struct{}, w.samples)
	reflecting, reflectCtx := errgroup.WithContext(ctx)
	reflecting.SetLimit(cmp.Or(r.Source.Concurrency, 16))
	for i := range results {
		reflecting.Go(func() (err error) {
			results[i], err = r.reflect(reflectCtx, samples[from+i], len(samples))
			done <- struct{}{}
			r.progress("reflecting", from+len(done), len(samples))
			return err
		})
	}
	if err := reflecting.Wait(); err != nil {
		return w, err
	}
	var reflections []events.Handle
	for i := range results {
		recorded := samples[from+i]
		result := sampleResult{reflection: results[i].handle, rounds: 1, lostReason: results[i].lostReason}
		sample := events.Task{ID: string(recorded.id)}
		if e := results[i].execution; e != nil {
			sample = events.Task{ID: e.RunID, Question: e.Question, Target: e.Target}
			result.answer = newAnswer(0, e)
		}
		if result.reflection != "" {
			reflections = append(reflections, result.reflection)
		}
		r.addSample(Train, "executions", &sample, recorded.place, &result, &w.score)
	}
	r.step += w.samples
	return w, r.gather(ctx, from/r.CurateEvery, reflections)
}
