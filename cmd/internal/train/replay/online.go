package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/train/report"
	"debrief/events"
)

// runOnline has each window answered and then learned from, in the order of arrival. Tasks are live traffic: they pin
// no version and their reflections are not held. Every answer is scored before anything is learned from it.
func (r *run) runOnline(ctx context.Context) error {
	if err := r.measureBefore(ctx); err != nil {
		return err
	}
	r.epoch = 1
	err := r.learnEpoch(ctx, func(ctx context.Context) (window, error) {
		left := r.Train.Tasks[r.step:]
		if len(left) == 0 {
			return window{}, nil // the end
		}
		return r.testThenLearn(ctx, left[:min(len(left), r.Batch)])
	})
	if err != nil {
		return err
	}
	return r.measureAfter(ctx)
}

// testThenLearn has one window answered and scored, and waits until its effects are visible.
func (r *run) testThenLearn(ctx context.Context, samples []events.Task) (window, error) {
	defer addTime(&r.learning, time.Now())
	w := window{samples: len(samples)}
	from := r.step
	tasks := make([]events.Task, len(samples))
	for i, sample := range samples {
		tasks[i] = r.trainingTask(sample, from+i, from+i+1) // steps count from 1
		tasks[i].MinVersion = r.version
	}
	results, err := r.submitter.run(ctx, tasks, func(done int) { r.progress("online", from+done, r.total) })
	if err != nil {
		return w, err
	}
	r.step += len(samples)
	lastExecution := uint64(0)                       // sequence
	answeredWith := position{epoch: 1, step: r.step} // with the newest version of an answer, or else r.version
	for i := range results {
		if a := results[i].answer; a != nil {
			lastExecution = max(lastExecution, a.seq)
			answeredWith.version = max(answeredWith.version, a.version)
		}
		r.addSample(Train, "online", &samples[i], from+i, &results[i], &w.score)
	}
	if answeredWith.version == 0 {
		answeredWith.version = r.version
	}
	// The report has the version of these answers, not the current one: after an interruption, the playbook may be newer.
	if w.book, err = r.log.bookAt(ctx, answeredWith); err != nil {
		return w, err
	}
	if err := r.waitLearned(ctx, lastExecution); err != nil {
		return w, err
	}
	for i := range results {
		if reason := r.tracker.deadReason(results[i].lastExecution); reason != "" && results[i].lostReason == "" {
			r.addLoss(report.Loss{Set: Train, Sample: samples[i].ID, Epoch: 1, Reason: "not reflected on: " + reason})
		}
	}
	return w, nil
}

// waitLearned waits until the effects of the executions up to the sequence lastExecution are visible to generators.
func (r *run) waitLearned(ctx context.Context, lastExecution uint64) error {
	if err := r.waitAckFloor(ctx, events.RoleReflector, lastExecution); err != nil {
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
	if err := r.tracker.waitReflections(ctx, m.Sequence); err != nil {
		return err
	}
	if err := r.waitAckFloor(ctx, events.RoleCurator, m.Sequence); err != nil {
		return err
	}
	if err := r.log.follow(ctx); err != nil {
		return err
	}
	// r.version is not the newest version: after an interruption, the log has versions that learned from later windows.
	r.version = max(r.version, r.log.versionLearnedUpTo(lastExecution))
	return r.follow.Wait(ctx, r.version)
}

// waitAckFloor waits until a role has acknowledged everything up to a sequence of its stream.
func (r *run) waitAckFloor(ctx context.Context, role string, seq uint64) error {
	floor := func() (uint64, error) {
		lag, err := r.conn.Consumers.Lag(ctx, role)
		return lag.Floor, err
	}
	return waitFloor(ctx, seq, floor, func() { r.sendStall(role) })
}

// waitFloor waits until floor returns at least seq. It calls onStall when the floor has not changed for stallTime.
func waitFloor(ctx context.Context, seq uint64, floor func() (uint64, error), onStall func()) error {
	stalled := time.NewTimer(stallTime)
	defer stalled.Stop()
	for last := uint64(0); ; {
		now, err := floor()
		if err != nil || now >= seq {
			return err
		}
		if now != last {
			last = now
			stalled.Reset(stallTime)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stalled.C:
			onStall()
		case <-time.After(10 * time.Millisecond):
		}
	}
}
