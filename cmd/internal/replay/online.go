package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/report"
	"debrief/events"
)

// streamBatchDelay is the time that a window of a stream waits for more samples after its first one.
const streamBatchDelay = 250 * time.Millisecond

// runOnline has each window answered and then learned from, in the order of arrival. Tasks are live traffic: they pin
// no version and their reflections are not held. Every answer is scored before anything is learned from it.
func (r *run) runOnline(ctx context.Context) error {
	if err := r.measureBefore(ctx); err != nil {
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
		train, last = addScores(train, score), nil
		if v := r.ValidateEvery; r.Validation != nil && v > 0 && r.step/v > (r.step-len(tasks))/v {
			if last, err = r.validate(ctx); err != nil {
				return err
			}
			if r.report.Stopped = r.stopReason(); r.report.Stopped != "" {
				break
			}
		}
	}
	if r.tracker.ended != nil && r.step != r.state.snapshot().Step {
		return r.tracker.ended
	}
	now, err := r.bookAt(ctx, r.version)
	if err != nil {
		return err
	}
	if r.Validation != nil && last == nil {
		if last, err = r.validate(ctx); err != nil {
			return err
		}
	}
	e := report.Epoch{Epoch: 1, Train: finish(train), Validation: last, Book: now}
	r.report.Epochs = append(r.report.Epochs, e)
	if r.OnEpoch != nil {
		r.OnEpoch(e)
	}
	return r.measureAfter(ctx)
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

func (r *run) testThenLearn(ctx context.Context, samples []events.Task, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.phases[0] += time.Since(began) }()
	score, point := report.Score{}, report.Point{Epoch: 1, Set: Train}
	from := r.step
	tasks := make([]events.Task, len(samples))
	for i, t := range samples {
		t.Book, t.Purpose, t.MinVersion, t.Rounds = r.book, events.Learn, r.version, r.Rounds
		t.Origin = events.Origin{Run: r.Name, Epoch: 1, Index: from + i, Source: t.Origin.Source}
		t.ID = taskID(epochPhase(1), t.ID)
		tasks[i] = t
	}
	fates, err := r.tracker.run(ctx, tasks, func(done int) { r.progress("online", from+done, total) })
	if err != nil {
		return score, err
	}
	r.step += len(samples)
	last, with := uint64(0), uint64(0)
	for i := range fates {
		if a := fates[i].answer; a != nil {
			last, with = max(last, a.seq), max(with, a.version)
		}
		r.recordSample(Train, "online", &samples[i], from+i, &fates[i], &score)
	}
	if with == 0 {
		with = r.version
	}
	// The version of the answers is not the newest one if they are from before an interruption.
	if point.Book, err = r.bookAt(ctx, with); err != nil {
		return score, err
	}
	if err := r.waitLearned(ctx, last); err != nil {
		return score, err
	}
	for i := range fates {
		if why := r.tracker.deadReason(fates[i].lastExecution); why != "" && fates[i].lostReason == "" {
			r.report.Losses = append(r.report.Losses, report.Loss{Set: Train, Sample: samples[i].ID, Epoch: 1, Reason: "not reflected on: " + why})
		}
	}
	point.Step, point.Score = r.step, finish(score)
	r.addPoint(point)
	r.state.setProgress(1, r.step, r.version)
	return score, nil
}

// waitLearned waits until the effects of the executions up to a sequence are visible to generators.
func (r *run) waitLearned(ctx context.Context, seq uint64) error {
	if err := r.waitAckFloor(ctx, events.RoleReflector, seq); err != nil {
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
	if err := r.waitAckFloor(ctx, events.RoleCurator, m.Sequence); err != nil {
		return err
	}
	if err := r.log.follow(ctx, r.store, r.book); err != nil {
		return err
	}
	// After an interruption, the log holds versions that learned from later windows.
	r.version = max(r.version, r.log.versionBefore(seq))
	return r.follow.Wait(ctx, r.version)
}

// waitAckFloor waits until a role has acknowledged everything up to a sequence of its stream.
func (r *run) waitAckFloor(ctx context.Context, role string, seq uint64) error {
	began, said := time.Now(), false
	for {
		lag, err := r.conn.Lag(ctx, role)
		if err != nil {
			return err
		}
		if lag.Floor >= seq {
			return nil
		}
		if !said && time.Since(began) > stallNotice && r.OnStall != nil {
			said = true
			r.OnStall(role)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
