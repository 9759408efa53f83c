package replay

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

// window is a group of training samples that the run has learned from together.
type window struct {
	samples int // 0 after the end of the epoch
	score   report.Score
	book    report.Book // the playbook of the answers
	last    bool        // no window of the epoch follows; false if that is not known
}

// learnEpoch calls learnWindow for each window of an epoch, until one has no samples. At the end it retries the reflections that the Curator
// has skipped. It measures the validation set at the end, and when a validation is due in between. It ends early without improvement; see
// Config.Patience.
func (r *run) learnEpoch(ctx context.Context, learnWindow func(context.Context) (window, error)) error {
	train := report.Score{}     // sum over the windows
	var validated *report.Score // the validation of the current version of the playbook; nil without one
	stopped := ""               // reason to end the run early
	for stopped == "" {
		w, err := learnWindow(ctx)
		if err != nil {
			return err
		}
		if w.samples == 0 {
			break
		}
		if err := r.endWindow(ctx, w); err != nil {
			return err
		}
		train = train.Plus(w.score)
		validated = nil
		mayValidate := r.Validation != nil && r.Mode != Executions && !w.last // the end of the epoch has a validation
		if mayValidate && isDue(r.ValidateEvery, r.step, w.samples) {
			if validated, err = r.validate(ctx); err != nil {
				return err
			}
			stopped = r.stopReason()
		}
	}
	if stopped == "" {
		before := r.version // a field of r.position
		if err := r.retrySkipped(ctx); err != nil {
			return err
		}
		if r.version > before { // the validation is of an older version
			validated = nil
		}
	}
	book, err := r.log.bookAt(ctx, r.position)
	if err != nil {
		return err
	}
	if r.Validation != nil && validated == nil {
		if validated, err = r.validate(ctx); err != nil {
			return err
		}
		if r.epoch < r.Epochs { // the last epoch ends the run in any case
			stopped = r.stopReason()
		}
	}
	r.report.Stopped = stopped
	r.addEpoch(report.Epoch{Epoch: r.epoch, Train: train.Finish(), Validation: validated, Book: book})
	return nil
}

// endWindow adds a window to the report, with a snapshot if one is due, and stores the progress of the run.
func (r *run) endWindow(ctx context.Context, w window) error {
	r.addPoint(report.Point{Epoch: r.epoch, Step: r.step, Set: Train, Book: w.book, Score: w.score.Finish()})
	r.state.setProgress(r.position)
	r.state.setCuratorUsage(r.log.usage(r.version))
	if !isDue(r.SnapshotEvery, r.step, w.samples) {
		return nil
	}
	book, err := r.log.bookAt(ctx, r.position)
	r.report.Snapshots = append(r.report.Snapshots, book)
	return err
}

// trainingTask returns the task of a training sample in the current epoch. index is the position of the sample in its file. step counts
// the training samples of the run, from 1.
func (r *run) trainingTask(sample events.Task, index, step int) events.Task {
	t := sample
	t.ID = taskID(fmt.Sprintf("e%03d", r.epoch), sample.ID)
	t.Book = r.book
	t.Purpose = events.Learn
	t.Rounds, t.Tries = r.Rounds, r.Tries
	t.Origin = events.Origin{
		Run: r.Name, Epoch: r.epoch, Index: index, Step: step, Steps: r.total, Source: sample.Origin.Source, Model: r.Model,
	}
	return t
}

// addTime adds the time since a moment to a sum. Defer it at the start of the work.
func addTime(sum *time.Duration, began time.Time) { *sum += time.Since(began) }
