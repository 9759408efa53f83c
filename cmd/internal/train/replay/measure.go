package replay

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

// measurer measures versions of a playbook on the validation set and the test set, and finds the best version.
type measurer struct {
	Sets
	run      string // name of the run
	model    string // required of the generators; may be empty
	patience int    // measurements without a better one that end the run; 0 disables it
	*position
	log       *bookLog
	submitter *submitter // of the run's playbook
	recorder  *recorder

	best      report.Book
	bestAcc   float64
	validated bool // the validation set was measured
	sinceBest int  // measurements since the best
}

// measure has every sample of a set answered with one version of the playbook of a submitter. Nothing is learned from
// the answers.
func (m *measurer) measure(ctx context.Context, set *Set, phase string, s *submitter, version uint64) (*report.Score, error) {
	began := time.Now()
	defer func() { m.recorder.evaluating += time.Since(began) }()
	book := s.tracker.book
	own := book == m.submitter.tracker.book
	point := report.Point{Epoch: m.epoch, Step: m.step, Set: set.Set}
	switch {
	case !own:
	case version == m.version:
		var err error
		if point.Book, err = m.log.bookAt(ctx, *m.position); err != nil {
			return nil, err
		}
	default: // the best version, of an earlier step
		point.Epoch, point.Step, point.Book = m.best.Epoch, m.best.Step, m.best
	}
	tasks := make([]events.Task, len(set.Tasks))
	for i, t := range set.Tasks {
		t.Book, t.Purpose, t.Playbook, t.Session = book, events.Evaluate, &version, ""
		t.Origin = events.Origin{Run: m.run, Epoch: m.epoch, Index: i, Model: m.model}
		t.ID = taskID(fmt.Sprintf("%s@%d", set.Set, version), t.ID)
		if !own {
			t.ID = taskID(m.run, t.ID)
		}
		tasks[i] = t
	}
	results, err := s.run(ctx, tasks, func(done int) { m.recorder.progress(set.Set+", "+phase, done, len(tasks)) })
	if err != nil {
		return nil, err
	}
	var score report.Score
	for i := range results {
		m.recorder.addSample(set.Set, phase, &set.Tasks[i], i, &results[i], &score)
	}
	score = score.Finish()
	point.Score = score
	m.recorder.addPoint(point)
	return &score, nil
}

// validate measures the validation set and records the best version.
func (m *measurer) validate(ctx context.Context) (*report.Score, error) {
	score, err := m.measure(ctx, m.Validation, fmt.Sprintf("step %d", m.step), m.submitter, m.version)
	if err != nil {
		return nil, err
	}
	if score.N > 0 { // without labels, no version is better than another
		if !m.validated || score.Accuracy > m.bestAcc {
			m.validated, m.bestAcc, m.sinceBest = true, score.Accuracy, 0
			if m.best, err = m.log.bookAt(ctx, *m.position); err != nil {
				return nil, err
			}
		} else {
			m.sinceBest++
		}
	}
	return score, nil
}

// before measures the playbook with which the run begins.
func (m *measurer) before(ctx context.Context) (err error) {
	if m.Test != nil {
		if m.recorder.report.Before, err = m.measure(ctx, m.Test, "before", m.submitter, m.version); err != nil {
			return err
		}
	}
	if m.Validation != nil {
		_, err = m.validate(ctx)
	}
	return err
}

// after measures the best playbook at the end of the run.
func (m *measurer) after(ctx context.Context) (err error) {
	rep := &m.recorder.report
	if rep.Final, err = m.log.bookAt(ctx, *m.position); err != nil {
		return err
	}
	if !m.validated {
		m.best = rep.Final
	}
	rep.Best = m.best
	if m.Test == nil {
		return nil
	}
	rep.After, err = m.measure(ctx, m.Test, "after", m.submitter, m.best.Version)
	return err
}

// isDue reports whether a validation is due after a window of samples.
func (m *measurer) isDue(every, samples int) bool {
	return m.Validation != nil && m.passed(every, samples)
}

// stopReason returns the reason to end the run early, or "".
func (m *measurer) stopReason() string {
	if m.patience > 0 && m.sinceBest >= m.patience {
		return fmt.Sprintf("%d measurements of the validation set without a better one", m.sinceBest)
	}
	return ""
}
