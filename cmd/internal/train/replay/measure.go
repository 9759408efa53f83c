package replay

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

// measure has every sample of a set answered with one version of the playbook of the submitter s. Nothing is learned from the answers.
func (r *run) measure(ctx context.Context, set *Set, phase string, s *submitter, version uint64) (*report.Score, error) {
	defer addTime(&r.evaluating, time.Now())
	book := s.tracker.book
	point := report.Point{Epoch: r.epoch, Step: r.step, Set: set.Set}
	switch {
	case book != r.book: // r.log does not have another playbook, so point.Book stays empty
	case version == r.version:
		var err error
		if point.Book, err = r.log.bookAt(ctx, r.position); err != nil {
			return nil, err
		}
	default: // the best version, which is older
		point.Epoch, point.Step = r.best.Epoch, r.best.Step
		point.Book = r.best
	}
	tasks := make([]events.Task, len(set.Tasks))
	for i, t := range set.Tasks {
		t.Book = book
		t.Purpose = events.Evaluate
		t.Playbook = &version
		t.Session = ""
		t.Origin = events.Origin{Run: r.Name, Epoch: r.epoch, Index: i, Model: r.Model}
		t.ID = taskID(fmt.Sprintf("%s@%d", set.Set, version), t.ID)
		if book != r.book { // several runs may measure that playbook
			t.ID = taskID(r.Name, t.ID)
		}
		tasks[i] = t
	}
	results, err := s.run(ctx, tasks, func(done int) { r.progress(set.Set+", "+phase, done, len(tasks)) })
	if err != nil {
		return nil, err
	}
	var sum report.Score
	for i := range results {
		r.addSample(set.Set, phase, &set.Tasks[i], i, &results[i], &sum)
	}
	point.Score = sum.Finish()
	r.addPoint(point)
	return &point.Score, nil
}

// validate measures the validation set and records the best version.
func (r *run) validate(ctx context.Context) (*report.Score, error) {
	score, err := r.measure(ctx, r.Validation, fmt.Sprintf("step %d", r.step), r.submitter, r.version)
	if err != nil {
		return nil, err
	}
	switch {
	case score.N == 0: // without labels, no version is better than another
	case !r.validated || score.Accuracy > r.bestAccuracy:
		r.validated, r.bestAccuracy = true, score.Accuracy
		r.sinceBest = 0
		r.best, err = r.log.bookAt(ctx, r.position)
	default:
		r.sinceBest++
	}
	return score, err
}

// measureBefore measures the playbook with which the run begins.
func (r *run) measureBefore(ctx context.Context) (err error) {
	if r.Test != nil {
		if r.report.Before, err = r.measure(ctx, r.Test, "before", r.submitter, r.version); err != nil {
			return err
		}
	}
	if r.Validation != nil {
		_, err = r.validate(ctx)
	}
	return err
}

// measureAfter measures the best playbook at the end of the run.
func (r *run) measureAfter(ctx context.Context) (err error) {
	rep := &r.report
	if rep.Final, err = r.log.bookAt(ctx, r.position); err != nil {
		return err
	}
	if !r.validated {
		r.best = rep.Final
	}
	rep.Best = r.best
	if r.Test == nil {
		return nil
	}
	rep.After, err = r.measure(ctx, r.Test, "after", r.submitter, r.best.Version)
	return err
}

// stopReason returns the reason to end the run early, "" if there is none.
func (r *run) stopReason() string {
	if r.Patience > 0 && r.sinceBest >= r.Patience {
		return fmt.Sprintf("%d measurements of the validation set without a better one", r.sinceBest)
	}
	return ""
}
