package replay

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"debrief/events"
	"debrief/playbook"
)

// Source describes the recorded executions of a run in the mode Executions. The run reflects on them in its own process, because the
// reflector workers may use another prompt.
type Source struct {
	Book        playbook.Book // the playbook of the executions
	Reflect     func(context.Context, *events.Execution, events.Handle) (*events.Reflection, error)
	Concurrency int // concurrent reflections; 0 means 16
}

// runExecutions reflects on the executions of another playbook, in the order in which they were stored. The Curator adds bullets to the run's
// playbook. It counts no votes, because the run's playbook does not have the bullets that were shown in the executions.
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
		to := min(from+r.Batch, len(samples))
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
	s, err := openSubmitter(ctx, r.conn, r.Source.Book, r.Options)
	if err != nil {
		return err
	}
	defer s.tracker.close()
	s.refusal = r.submitter.refusal // if the run has ended
	r.report.Before, err = r.measure(ctx, r.Test, "playbook "+string(r.Source.Book), s, version)
	r.sourceUsage = s.tracker.usage().generator
	return err
}

// reflectWindow reflects on the executions samples[from:to]. Then it has the Curator learn from all of them together.
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
	var done atomic.Int64
	reflecting, reflectCtx := errgroup.WithContext(ctx)
	reflecting.SetLimit(cmp.Or(r.Source.Concurrency, 16))
	for i := range results {
		reflecting.Go(func() (err error) {
			results[i], err = r.reflect(reflectCtx, samples[from+i], len(samples))
			r.progress("reflecting", from+int(done.Add(1)), len(samples))
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
		sample := events.Task{ID: string(recorded.id)} // of an execution that has expired, nothing else is known
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
	return w, r.gather(ctx, from/r.Batch, reflections)
}
