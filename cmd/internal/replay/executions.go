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

// Source is recorded executions and who reflects on them anew. No task is run and no worker's reflector is asked: the
// workers' prompt is another one.
type Source struct {
	Book    playbook.Book // whose executions
	Reflect func(context.Context, *events.Execution, events.Handle) (*events.Reflection, error)
	AtOnce  int // reflections at the same time; 16

	ledger *ledger // of Book, where a test set compares the two
}

// sourced is what a run found when it began: what has come since, or was forgotten, changes nothing about which executions
// are learned from together.
type sourced struct {
	Upto    uint64 `json:"upto"`             // sequence of the last event
	Samples int    `json:"samples"`          // executions that count
	Version uint64 `json:"playbook_version"` // of their book, that is compared with
}

// recorded is where the last round of a sample is stored, and what was said about it later.
type recorded struct {
	seq      uint64 // 0 where it has expired
	id       events.ID
	round    int
	place    int // in the order of the samples
	feedback []*events.Feedback
}

// executions has a reflector go over the executions of another book, in the order in which they were stored. What it
// makes of them is learned in the run's book. Bullets that were shown then are not in that book, so nothing votes.
func (r *run) executions(ctx context.Context) error {
	all, is, err := r.found(ctx)
	if err != nil {
		return err
	}
	if r.Test != nil {
		if err := r.examineSource(ctx, is.Version); err != nil {
			return err
		}
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
	if err := r.gatherRest(ctx); err != nil {
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
	if r.Epoch != nil {
		r.Epoch(e)
	}
	if err := r.after(ctx); err != nil {
		return err
	}
	there, err := r.store.At(ctx, r.Source.Book, is.Version)
	if err != nil {
		return err
	}
	here, err := r.store.At(ctx, r.book, r.best.Version)
	if err != nil {
		return err
	}
	r.report.Against = compare(here, there)
	r.report.Against.Book = string(r.Source.Book)
	return nil
}

// examineSource measures the book that the executions are from.
func (r *run) examineSource(ctx context.Context, version uint64) (err error) {
	if r.Source.ledger, err = openLedger(ctx, r.conn, r.Source.Book, r.Options); err != nil {
		return err
	}
	defer r.Source.ledger.close()
	r.Source.ledger.ended = r.ledger.ended
	r.report.Before, err = r.examine(ctx, r.Test, "playbook "+string(r.Source.Book), r.Source.Book, version)
	return err
}

// found is what the run is over, as it was when the run began. Executions expire from the oldest on: those that are not
// there any more stand at the beginning, so that the others keep their places.
func (r *run) found(ctx context.Context) ([]*recorded, *sourced, error) {
	is := r.state.sourced()
	if is == nil {
		s, err := r.conn.JetStream().Stream(ctx, events.StreamExecutions)
		if err != nil {
			return nil, nil, fmt.Errorf("open stream %s: %w", events.StreamExecutions, err)
		}
		w, err := r.store.Writer(ctx, r.Source.Book)
		if err != nil {
			return nil, nil, err
		}
		is = &sourced{Upto: s.CachedInfo().State.LastSeq, Version: w.State().Playbook().Version()}
	}
	all, err := r.recorded(ctx, is.Upto)
	if err != nil {
		return nil, nil, err
	}
	if r.state.sourced() == nil {
		if len(all) == 0 {
			return nil, nil, fmt.Errorf("playbook %q: none of its executions is stored that was learned from", r.Source.Book)
		}
		is.Samples = len(all)
		if err := r.state.found(ctx, is); err != nil {
			return nil, nil, err
		}
	}
	if gone := is.Samples - len(all); gone > 0 {
		if r.state.over {
			return nil, nil, &ExpiredError{r.Name}
		}
		expired := make([]*recorded, gone, is.Samples)
		for i := range expired {
			expired[i] = &recorded{id: "expired"}
		}
		all = append(expired, all...)
	}
	for i := range all {
		all[i].place = i
	}
	return all, is, nil
}

// recorded finds the executions up to a sequence that count: the last round of every sample that is for learning, and the
// feedback on it.
func (r *run) recorded(ctx context.Context, upto uint64) ([]*recorded, error) {
	samples := map[string]*recorded{}
	read := func(kind events.Kind, take func(bus.Stored)) error {
		return r.conn.ReadStored(ctx, events.StreamExecutions, kind.Subject(r.Source.Book), func(s bus.Stored) error {
			if s.Seq > upto {
				return bus.ErrStop
			}
			if bus.Unreachable(s.Err) { // others can be read by nobody
				return fmt.Errorf("read what is stored at %d: %w", s.Seq, s.Err)
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
		is := samples[e.TaskID]
		if is == nil {
			is = &recorded{round: -1}
			samples[e.TaskID] = is
		}
		if e.Origin.Round > is.round { // of equal ones the first counts
			is.seq, is.id, is.round = s.Seq, e.ID, e.Origin.Round
		}
	})
	if err != nil {
		return nil, err
	}
	all := slices.SortedFunc(maps.Values(samples), func(a, b *recorded) int { return cmp.Compare(a.seq, b.seq) })
	err = read(events.KindFeedback, func(s bus.Stored) {
		f, ok := s.Event.(*events.Feedback)
		if !ok {
			return
		}
		seq, is, err := f.Execution.Parse()
		if err != nil {
			return
		}
		if i, there := slices.BinarySearchFunc(all, seq, func(a *recorded, seq uint64) int { return cmp.Compare(a.seq, seq) }); there && is(all[i].id) {
			all[i].feedback = append(all[i].feedback, f)
		}
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
	err = each(len(some), cmp.Or(r.Source.AtOnce, 16), func(i int) error {
		defer func() { done <- struct{}{}; r.progress("reflecting", from+len(done), total) }()
		if some[i].seq == 0 {
			lost[i] = "it has expired"
			return nil
		}
		e, err := r.conn.Find(ctx, events.StreamExecutions, some[i].seq, func(id events.ID) bool { return id == some[i].id })
		if errors.Is(err, bus.ErrGone) {
			lost[i] = "it has expired"
			return nil
		}
		if err != nil {
			return err
		}
		old[i] = e.(*events.Execution)
		for _, f := range some[i].feedback {
			old[i].Outcome, old[i].Target = old[i].Outcome.After(f), cmp.Or(f.Target, old[i].Target)
		}
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
	ref, err := r.ponder(ctx, &e, h)
	if err != nil {
		return "", err
	}
	ref.Book = r.book
	receipt, err := r.conn.Publish(ctx, ref, bus.Marks{Repeat: true})
	if err != nil {
		return "", fmt.Errorf("store the reflection on %s: %w", h, err)
	}
	return receipt.Handle, nil
}

// How often a reflector is asked again that made nothing of an execution, as workers do, and how long it is left alone.
const (
	ponders   = 5
	shortRest = 50 * time.Millisecond
	longRest  = 10 * time.Second // of a model that is away
)

// ponder asks the reflector. A model that is away is waited for: no sample is lost over that.
func (r *run) ponder(ctx context.Context, e *events.Execution, h events.Handle) (*events.Reflection, error) {
	for try, rest := 1, shortRest; ; rest = min(2*rest, longRest) {
		ref, err := r.Source.Reflect(ctx, e, h)
		switch {
		case err == nil:
			return ref, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case bus.Away(err):
			if rest == longRest && r.Waiting != nil {
				r.Waiting(events.RoleReflector)
			}
		case try == ponders:
			return nil, &lostError{err}
		default:
			try++
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(rest):
		}
	}
}
