package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
	"debrief/reflector/rules"
)

// feedbackInfo identifies the feedback behind a reflection. It is zero for a reflection on the execution alone.
type feedbackInfo struct {
	id       events.ID
	seq      uint64 // stream sequence of the feedback
	corrects bool   // the outcome was known before
	first    bool   // the execution has no earlier reflection
}

// resolveFeedback returns the execution that the feedback is on, with the outcome after all feedback so far. It first
// waits until the execution itself is reflected on or dead-lettered, because votes should be corrected after they are
// cast.
//
// An execution without an outcome may have no reflection; see awaiting. The first feedback that sets its outcome then has no votes
// to correct and does not wait.
func (r *Reflector) resolveFeedback(ctx context.Context, conn *bus.Conn, windows *window.Store, f *events.Feedback, at uint64, attempt int) (*events.Execution, feedbackInfo, error) {
	l := feedbackInfo{id: f.ID, seq: at}
	seq, is, err := f.Execution.Parse()
	if err != nil {
		return nil, l, bus.Discard(err)
	}
	found, err := conn.Events.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, l, bus.Discard(err)
	}
	if err != nil {
		return nil, l, err
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Book != f.Book {
		return nil, l, bus.Discard(fmt.Errorf("not an execution of book %q", f.Book))
	}
	if e.Purpose == events.Evaluate || e.Origin.Held { // evaluations and held executions are not learned from
		return e, l, nil
	}
	l.corrects = e.Outcome.Known()
	if !l.corrects && f.Outcome.Complete().Known() && (isOpen(e) || !rules.HasSignal(e)) {
		if isOpen(e) {
			r.awaiting.answered(e.Book)
		}
		l.first, err = windows.IsFirstCopy(ctx, f.Book, window.EffectFeedback, e.SampleID(), at)
		if err != nil {
			return nil, l, err
		}
		if l.first {
			e.Outcome, e.Target = e.Outcome.WithFeedback(f), cmp.Or(f.Target, e.Target)
			return e, l, nil
		}
	}
	earlier, err := earlierFeedback(ctx, conn, f, e.ID, at)
	if err != nil {
		return nil, l, err
	}
	for _, f := range append(earlier, f) {
		e.Outcome, e.Target = e.Outcome.WithFeedback(f), cmp.Or(f.Target, e.Target)
	}
	if attempt > maxWaits {
		return e, l, nil
	}
	return e, l, waitReflected(ctx, conn, seq)
}

// Feedback waits for the reflection on its execution in its first deliveries only. An execution that takes longer, for
// example while the model is unavailable, does not block its feedback: the Curator accepts a correction before the votes
// that it corrects.
const (
	reflectedTimeout = 10 * time.Second
	maxWaits         = 3 // deliveries that wait
)

// earlierFeedback returns the feedback on the same execution with a sequence under at, under any handle of the
// execution. It returns nil if f has an outcome, since the last outcome counts.
func earlierFeedback(ctx context.Context, conn *bus.Conn, f *events.Feedback, execution events.ID, at uint64) (earlier []*events.Feedback, err error) {
	if f.Outcome.Complete().Known() {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, reflectedTimeout)
	defer stop()
	err = conn.Events.Poll(ctx, events.StreamExecutions, events.KindFeedback.Subject(f.Book), 1, 5*time.Millisecond, func(s bus.Stored) error {
		if s.Seq >= at {
			return bus.ErrStop
		}
		other, ok := s.Event.(*events.Feedback)
		if !ok {
			return nil
		}
		same, err := sameExecution(ctx, conn, other.Execution, f.Execution, execution)
		if same {
			earlier = append(earlier, other)
		}
		return err
	})
	return earlier, err
}

// sameExecution reports whether h is the known handle of the execution, or the handle of a copy that was stored again.
func sameExecution(ctx context.Context, conn *bus.Conn, h, known events.Handle, execution events.ID) (bool, error) {
	if h == known {
		return true, nil
	}
	seq, is, err := h.Parse()
	if err != nil || !is(execution) { // the handle contains a part of the id
		return false, nil
	}
	_, err = conn.Events.Find(ctx, events.StreamExecutions, seq, func(id events.ID) bool { return id == execution })
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// waitReflected waits until the Reflectors have acknowledged everything up to a sequence of the executions' stream. It
// returns an error after reflectedTimeout.
func waitReflected(ctx context.Context, conn *bus.Conn, seq uint64) error {
	until := time.Now().Add(reflectedTimeout)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		lag, err := conn.Consumers.Lag(ctx, events.RoleReflector)
		switch {
		case err != nil:
			return err
		case lag.Floor >= seq:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("wait for the reflection on sequence %d: executions are reflected on up to %d", seq, lag.Floor)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
