package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/bus"
)

// streamBatchDelay is the time that a window of a stream waits for more samples after its first one.
const streamBatchDelay = 250 * time.Millisecond

// runOnline has each window answered and then learned from, in the order of arrival. Tasks are live traffic: they pin
// no version and their reflections are not held. Every answer is scored before anything is learned from it.
func (r *run) runOnline(ctx context.Context) error {
	if err := r.measurer.before(ctx); err != nil {
		return err
	}
	r.epoch = 1
	total, train := 0, report.Score{}
	var last *report.Score // of the validation set, if it was measured after the last window
	if r.Train.Stream == nil {
		total = len(r.Train.Tasks)
	}
	for {
		tasks, err := r.nextWindow(ctx)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			break
		}
		score, err := r.testThenLearn(ctx, tasks, total)
		if err != nil {
			return err
		}
		train, last = train.Plus(score), nil
		if r.measurer.isDue(r.ValidateEvery, len(tasks)) {
			if last, err = r.measurer.validate(ctx); err != nil {
				return err
			}
			if r.recorder.report.Stopped = r.measurer.stopReason(); r.recorder.report.Stopped != "" {
				break
			}
		}
	}
	if r.submitter.ended != nil && r.step != r.state.snapshot().Step {
		return r.submitter.ended
	}
	now, err := r.log.bookAt(ctx, *r.position)
	if err != nil {
		return err
	}
	if r.Validation != nil && last == nil {
		if last, err = r.measurer.validate(ctx); err != nil {
			return err
		}
	}
	r.recorder.addEpoch(report.Epoch{Epoch: 1, Train: train.Finish(), Validation: last, Book: now})
	return r.measurer.after(ctx)
}

// streams reports whether the samples come from a stream that is read only once.
func (r *run) streams() bool { return r.Train != nil && r.Train.Stream != nil }

// nextWindow returns the next samples, at most one batch. From a stream, it returns the samples that arrived within
// streamBatchDelay. It returns none at the end.
func (r *run) nextWindow(ctx context.Context) ([]events.Task, error) {
	if r.Train.Stream == nil {
		left := r.Train.Tasks[r.step:]
		return left[:min(len(left), r.Batch)], nil
	}
	var tasks []events.Task
	var late <-chan time.Time
	for len(tasks) < r.Batch {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case t, more := <-r.Train.Stream:
			if !more {
				return tasks, nil
			}
			tasks = append(tasks, t)
			if late == nil {
				late = time.After(streamBatchDelay)
			}
		case <-late:
			return tasks, nil
		}
	}
	return tasks, nil
}

// testThenLearn has one window answered and scored, and waits until its effects are visible.
func (r *run) testThenLearn(ctx context.Context, samples []events.Task, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.recorder.learning += time.Since(began) }()
	score := report.Score{}
	from := r.step
	tasks := make([]events.Task, len(samples))
	for i, t := range samples {
		t.Book, t.Purpose, t.MinVersion, t.Rounds = r.book, events.Learn, r.version, r.Rounds
		t.Origin = events.Origin{Run: r.Name, Epoch: 1, Index: from + i, Step: from + i + 1, Steps: total, Source: t.Origin.Source, Model: r.Model}
		t.ID = taskID(epochPhase(1), t.ID)
		tasks[i] = t
	}
	results, err := r.submitter.run(ctx, tasks, func(done int) { r.recorder.progress("online", from+done, total) })
	if err != nil {
		return score, err
	}
	r.step += len(samples)
	last, with := uint64(0), position{epoch: 1, step: r.step}
	for i := range results {
		if a := results[i].answer; a != nil {
			last, with.version = max(last, a.seq), max(with.version, a.version)
		}
		r.recorder.addSample(Train, "online", &samples[i], from+i, &results[i], &score)
	}
	if with.version == 0 {
		with.version = r.version
	}
	// The version of the answers is not the newest one if they are from before an interruption.
	book, err := r.log.bookAt(ctx, with)
	if err != nil {
		return score, err
	}
	if err := r.waitLearned(ctx, last); err != nil {
		return score, err
	}
	for i := range results {
		if why := r.tracker.deadReason(results[i].lastExecution); why != "" && results[i].lostReason == "" {
			r.recorder.addLoss(report.Loss{Set: Train, Sample: samples[i].ID, Epoch: 1, Reason: "not reflected on: " + why})
		}
	}
	r.recorder.endWindow(book, score)
	return score, r.snapshot(ctx, len(samples))
}

// waitLearned waits until the effects of the executions up to a sequence are visible to generators.
func (r *run) waitLearned(ctx context.Context, seq uint64) error {
	if err := waitAckFloor(ctx, r.conn, events.RoleReflector, seq, r.OnStall); err != nil {
		return err
	}
	if err := r.tracker.waitDeadLetters(ctx, events.RoleReflector); err != nil {
		return err
	}
	s, err := r.conn.JetStream().Stream(ctx, events.StreamReflections)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamReflections, err)
	}
	m, err := s.GetLastMsgForSubject(ctx, events.KindReflection.Subject(r.book))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil // nothing to learn so far
	case err != nil:
		return fmt.Errorf("read %s: %w", events.StreamReflections, err)
	}
	if err := waitAckFloor(ctx, r.conn, events.RoleCurator, m.Sequence, r.OnStall); err != nil {
		return err
	}
	if err := r.log.follow(ctx); err != nil {
		return err
	}
	// After an interruption, the log holds versions that learned from later windows.
	r.version = max(r.version, r.log.versionBefore(seq))
	return r.follow.Wait(ctx, r.version)
}

// waitAckFloor waits until a role has acknowledged everything up to a sequence of its stream. onStall may be nil.
func waitAckFloor(ctx context.Context, conn *bus.Conn, role string, seq uint64, onStall func(waitsFor string)) error {
	notice := newStallNotice(onStall)
	for {
		lag, err := conn.Consumers.Lag(ctx, role)
		if err != nil {
			return err
		}
		if lag.Floor >= seq {
			return nil
		}
		notice.check(role)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
