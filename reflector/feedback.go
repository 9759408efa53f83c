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

// resolveFeedback returns the execution that the feedback of a delivery is on, with the outcome after all feedback so far. It waits until
// the execution itself is reflected on or dead-lettered, because votes should be corrected after they are cast. But the first feedback on an
// execution without an outcome has no votes to correct, and does not wait; see awaiting.
func (w *worker) resolveFeedback(ctx context.Context, f *events.Feedback, d *bus.Delivery) (*events.Execution, feedbackInfo, error) {
	info := feedbackInfo{id: f.ID, seq: d.Seq}
	e, executionSeq, err := w.findExecution(ctx, f)
	if err != nil {
		return nil, info, err
	}
	if e.Purpose == events.Evaluate || e.Origin.Held { // evaluations and held executions are not learned from
		return e, info, nil
	}
	info.corrects = e.Outcome.Known()
	setsOutcome := !info.corrects && f.Outcome.Complete().Known()
	mayWait := isOpen(e)                              // then the reflection on the execution may wait for this feedback
	reflectedAtOnce := rules.HasSignal(e) && !mayWait // before any feedback
	if setsOutcome && !reflectedAtOnce {
		if mayWait {
			w.awaiting.countFeedback(e.Book)
		}
		info.first, err = w.windows.ClaimFirstCopy(ctx, f.Book, window.EffectFeedback, e.SampleID(), d.Seq)
		if err != nil {
			return nil, info, err
		}
		if info.first {
			e.Outcome, e.Target = e.Outcome.WithFeedback(f), cmp.Or(f.Target, e.Target)
			return e, info, nil
		}
	}
	earlier, err := w.earlierFeedback(ctx, f, e.ID, d.Seq)
	if err != nil {
		return nil, info, err
	}
	for _, one := range append(earlier, f) {
		e.Outcome, e.Target = e.Outcome.WithFeedback(one), cmp.Or(one.Target, e.Target)
	}
	if d.Attempt > maxWaits {
		return e, info, nil
	}
	return e, info, w.waitReflected(ctx, executionSeq)
}

// findExecution returns the execution that the feedback is on, and its stream sequence.
func (w *worker) findExecution(ctx context.Context, f *events.Feedback) (*events.Execution, uint64, error) {
	seq, matches, err := f.Execution.Parse()
	if err != nil {
		return nil, 0, bus.Discard(err)
	}
	found, err := w.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, 0, bus.Discard(err)
	}
	if err != nil {
		return nil, 0, err
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Book != f.Book {
		return nil, 0, bus.Discard(fmt.Errorf("not an execution of book %q", f.Book))
	}
	return e, seq, nil
}

// Feedback waits for the reflection on its execution in its first deliveries only. An execution that takes longer, for
// example while the model is unavailable, does not block its feedback: the Curator accepts a correction before the votes
// that it corrects.
const (
	reflectedTimeout = 10 * time.Second
	maxWaits         = 3 // deliveries that wait
)

// earlierFeedback returns the feedback on the same execution with a sequence below seq, under any handle of the execution. It returns nil if
// f has an outcome, since the last outcome counts.
func (w *worker) earlierFeedback(ctx context.Context, f *events.Feedback, execution events.ID, seq uint64) (earlier []*events.Feedback, err error) {
	if f.Outcome.Complete().Known() {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, reflectedTimeout)
	defer stop()
	err = w.conn.Events.Poll(ctx, events.StreamExecutions, events.KindFeedback.Subject(f.Book), 1, 5*time.Millisecond, func(s bus.Stored) error {
		if s.Seq >= seq {
			return bus.ErrStop
		}
		other, ok := s.Event.(*events.Feedback)
		if !ok {
			return nil
		}
		same, err := w.sameExecution(ctx, other.Execution, f.Execution, execution)
		if same {
			earlier = append(earlier, other)
		}
		return err
	})
	return earlier, err
}

// sameExecution reports whether h is the known handle of the execution, or the handle of a copy that was stored again.
func (w *worker) sameExecution(ctx context.Context, h, known events.Handle, execution events.ID) (bool, error) {
	if h == known {
		return true, nil
	}
	seq, mayBe, err := h.Parse()
	if err != nil || !mayBe(execution) { // the handle contains only a part of the id
		return false, nil //nolint:nilerr // no execution has such a handle
	}
	_, err = w.conn.Events.Find(ctx, events.StreamExecutions, seq, func(id events.ID) bool { return id == execution })
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// waitReflected waits until the Reflectors have acknowledged everything up to a sequence of the executions' stream. It
// returns an error after reflectedTimeout. The pauses between its questions grow up to a second, and are short again after each progress:
// feedback often waits for a row of other feedback, and each of the row would otherwise take a second.
func (w *worker) waitReflected(ctx context.Context, seq uint64) error {
	until := time.Now().Add(reflectedTimeout)
	var floor uint64
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		lag, err := w.conn.Consumers.Lag(ctx, events.RoleReflector)
		switch {
		case err != nil:
			return err
		case lag.Floor >= seq:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("wait for the reflection on sequence %d: executions are reflected on up to %d", seq, lag.Floor)
		case lag.Floor > floor:
			floor, pause = lag.Floor, min(pause, 40*time.Millisecond)
		}
		if err := events.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
