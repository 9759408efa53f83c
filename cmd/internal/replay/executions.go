package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// Source is recorded executions and who reflects on them anew. No task is run and no worker's reflector is asked: the
// workers' prompt is another one.
type Source struct {
	Book    playbook.Book // whose executions
	Reflect func(context.Context, *events.Execution, events.Handle) (*events.Reflection, error)
	AtOnce  int // reflections at the same time; 16

	ledger  *ledger // of Book, where a test set compares the two
	version uint64  // of Book, that is compared with
}

// recorded is where the last round of a sample is stored.
type recorded struct {
	seq   uint64
	id    events.ID
	round int
	place int // in the order of the samples
}

// executions has a reflector go over the executions of another book, in the order in which they were stored. What it
// makes of them is learned in the run's book. Bullets that were shown then are not in that book, so nothing votes.
func (r *run) executions(ctx context.Context) error {
	if r.Test != nil {
		if err := r.openSource(ctx); err != nil {
			return err
		}
	}
	all, err := r.recorded(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("playbook %q: none of its executions is stored that was learned from", r.Source.Book)
	}
	r.epoch = 1
	train := report.Score{}
	for from := 0; from < len(all); from += r.CurateEvery {
		score, err := r.relearn(ctx, from/r.CurateEvery, all[from:min(from+r.CurateEvery, len(all))], from, len(all))
		if err != nil {
			return err
		}
		train = add(train, score)
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
	if r.Epoch != nil {
		r.Epoch(e)
	}
	return r.after(ctx)
}

// openSource measures the book that the executions are from, at its newest version.
func (r *run) openSource(ctx context.Context) (err error) {
	if r.Source.ledger, err = openLedger(ctx, r.conn, r.Source.Book, r.Options); err != nil {
		return err
	}
	defer r.Source.ledger.close()
	w, err := r.store.Writer(ctx, r.Source.Book)
	if err != nil {
		return err
	}
	r.Source.version = w.State().Playbook().Version()
	r.report.Before, err = r.examine(ctx, r.Test, "playbook "+string(r.Source.Book), r.Source.Book, r.Source.version)
	return err
}

// recorded finds the executions that count: the last round of every sample that is for learning.
func (r *run) recorded(ctx context.Context) ([]*recorded, error) {
	var all []*recorded
	samples := map[string]*recorded{}
	err := r.conn.ReadStored(ctx, events.StreamExecutions, events.KindExecution.Subject(r.Source.Book), func(s bus.Stored) error {
		e, ok := s.Event.(*events.Execution)
		if !ok || e.Purpose == events.Evaluate {
			return nil
		}
		is := samples[e.TaskID]
		switch {
		case is == nil:
			is = &recorded{place: len(all)}
			samples[e.TaskID], all = is, append(all, is)
		case e.Origin.Round <= is.round:
			return nil // the first one counts
		}
		is.seq, is.id, is.round = s.Seq, e.ID, e.Origin.Round
		return nil
	})
	return all, err
}

// relearn has some executions reflected on, and then the Curator learn from all of them together.
func (r *run) relearn(ctx context.Context, window int, some []*recorded, from, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.phases[0] += time.Since(began) }()
	score, point := report.Score{}, report.Point{Epoch: 1, Set: Train}
	var err error
	if point.Book, err = r.bookAt(ctx, r.version); err != nil {
		return score, err
	}
	old := make([]*events.Execution, len(some))
	handles := make([]events.Handle, len(some))
	lost := make([]string, len(some))
	done := make(chan struct{}, len(some))
	err = each(len(some), max(r.Source.AtOnce, 1), func(i int) error {
		defer func() { done <- struct{}{}; r.progress("reflecting", from+len(done), total) }()
		e, err := r.conn.Find(ctx, events.StreamExecutions, some[i].seq, func(id events.ID) bool { return id == some[i].id })
		if errors.Is(err, bus.ErrGone) {
			lost[i] = "it has expired"
			return nil
		}
		if err != nil {
			return err
		}
		old[i] = e.(*events.Execution)
		handles[i], err = r.reflect(ctx, old[i], events.NewHandle(some[i].seq, some[i].id))
		if bad := (*lostError)(nil); errors.As(err, &bad) {
			lost[i], err = bad.Error(), nil
		}
		return err
	})
	if err != nil {
		return score, err
	}
	var held []events.Handle
	for i, e := range old {
		f := fate{held: handles[i], rounds: 1, lost: lost[i]}
		sample := events.Task{ID: string(some[i].id)}
		if e != nil {
			sample = events.Task{ID: e.TaskID, Question: e.Question, Target: e.Target}
			f.first = &answer{text: events.Beginning(e.Answer, keptAnswer), label: e.Outcome.Label, score: e.Outcome.Score, feedback: events.Beginning(e.Outcome.Feedback, keptFeedback), version: e.Version}
		}
		if f.held != "" {
			held = append(held, f.held)
		}
		r.note(Train, "executions", &sample, some[i].place, &f, &score)
	}
	r.step += len(some)
	if err := r.gather(ctx, window, held); err != nil {
		return score, err
	}
	point.Step, point.Score = r.step, finish(score)
	r.point(point)
	r.state.reached(1, r.step, r.version)
	return score, nil
}

// lostError is a reflection that nothing could be made of.
type lostError struct{ err error }

func (e *lostError) Error() string { return "not reflected on: " + e.err.Error() }

// reflect stores what the reflector makes of an execution, held, unless that is stored already.
func (r *run) reflect(ctx context.Context, old *events.Execution, h events.Handle) (events.Handle, error) {
	e := *old
	e.Book, e.ID = r.book, events.ExecutionID(r.book, old.TaskID, old.Origin.Round)
	e.Origin.Held, e.Origin.Run = true, r.Name
	e.Shown, e.Cited, e.Manifest = nil, nil, nil
	r.ledger.mu.Lock()
	there := r.ledger.reflected[e.ID]
	r.ledger.mu.Unlock()
	if there != "" {
		return there, nil
	}
	ref, err := r.Source.Reflect(ctx, &e, h)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", &lostError{err}
	}
	ref.Book = r.book
	receipt, err := r.conn.Publish(ctx, ref, bus.Marks{Repeat: true})
	if err != nil {
		return "", fmt.Errorf("store the reflection on %s: %w", h, err)
	}
	return receipt.Handle, nil
}
