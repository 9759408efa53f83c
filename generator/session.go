package generator

import (
	"context"
	"errors"
	"slices"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
)

// sessionHistory holds the stored data of a session.
type sessionHistory struct {
	window   []*events.Interaction      // oldest first, without the requested execution
	marks    []events.MarkedInteraction // also without the requested execution
	turn     int                        // turn of the requested execution: the stored one, or else the next; 0 without a session
	inWindow bool                       // the stored window contains the requested execution
	records  []*events.Note             // notes with records of steps
}

// readSession reads the stored data of a session, except the records. It excludes the requested execution, which is stored if its task was
// redelivered. It also excludes earlier rounds of the task and turns since the first round.
func (cb *ContextBuilder) readSession(ctx context.Context, req *contextRequest, warns *warnings) (h sessionHistory) {
	b, session, own := req.book, req.session, req.execution
	if session == "" {
		return h
	}
	list, damaged, err := cb.windows.Interactions(ctx, b, req.owner, session)
	if err != nil {
		warns.add("session: %s", shortError(ctx, err))
	}
	if damaged > 0 {
		warns.add("session: %d invalid interactions", damaged)
	}
	last := 0
	for _, i := range list {
		if i.ID == own {
			h.turn, h.inWindow = i.Turn, true
			continue
		}
		if req.isEarlierRound(i.ID, i.Turn) {
			continue
		}
		last = max(last, i.Turn)
		h.window = append(h.window, i)
	}
	if !h.inWindow {
		h.turn = last + 1
	}
	h.marks, err = cb.windows.Marks(ctx, b, req.owner, session)
	if err != nil {
		warns.add("session: read marks: %s", shortError(ctx, err))
	}
	h.marks = slices.DeleteFunc(h.marks, func(m events.MarkedInteraction) bool {
		return m.Interaction.ID == own || req.isEarlierRound(m.Interaction.ID, m.Interaction.Turn)
	})
	return h
}

const unknownTurn = 0 // turns begin at 1

// isEarlierRound reports whether an execution is an earlier round of the task, or a turn of the session since
// the first round. turn is the turn of the execution, or unknownTurn.
func (req *contextRequest) isEarlierRound(id events.ID, turn int) bool {
	if len(req.rounds) == 0 {
		return false
	}
	isSinceFirst := req.turn > 0 && turn >= req.turn // all rounds have the turn of the first one
	return isSinceFirst || slices.ContainsFunc(req.rounds, func(r events.PreviousRound) bool { return r.Execution == id })
}

// interaction returns the session's copy of an execution, nil if the session does not contain it.
func (h *sessionHistory) interaction(handle events.Handle) *events.Interaction {
	for _, i := range h.window {
		if i.Execution == handle {
			return i
		}
	}
	for k := range h.marks {
		if i := &h.marks[k].Interaction; i.Execution == handle {
			return i
		}
	}
	return nil
}

// addToWindow adds a stored execution to the window of its session. Of two executions with one id it adds the first
// stored, which counts everywhere else.
func (cb *ContextBuilder) addToWindow(ctx context.Context, e *events.Execution, r bus.Receipt) error {
	if r.Duplicate {
		_, matches, err := r.Handle.Parse()
		if err != nil {
			return err
		}
		first, err := cb.conn.Events.Find(ctx, events.StreamExecutions, r.Seq, matches)
		if errors.Is(err, bus.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var ok bool
		e, ok = first.(*events.Execution)
		if !ok {
			return nil
		}
	}
	if e.Purpose == events.Evaluate {
		return nil
	}
	// Record the execution. Without the record, a duplicate would become a new turn after the original has left the window.
	isFirst, err := cb.windows.ClaimFirstCopy(ctx, e.Book, window.EffectTurn, e.ID, r.Seq)
	switch {
	case e.Session == "": // without a window, the error is harmless: the Curator counts the run once, also without the record
		return nil
	case err != nil || !isFirst:
		return err
	}
	return cb.windows.Add(ctx, e.Book, e.Owner, e.Session, events.NewInteraction(r.Handle, e))
}

// addToWindowOrLog calls addToWindow and logs permanent errors. It returns only temporary errors, which are worth a
// retry. A window is a cache, so an error must not lose the answer.
func (cb *ContextBuilder) addToWindowOrLog(ctx context.Context, e *events.Execution, r bus.Receipt) error {
	err := cb.addToWindow(ctx, e, r)
	if err == nil {
		return nil
	}
	if bus.Unreachable(err) && !cb.windowBucketMissing(ctx) {
		return err
	}
	cb.conn.ContextLog(ctx).Warn().Err(err).Str("execution", string(r.Handle)).Msg("add execution to window of session")
	return nil
}

// windowBucketMissing reports whether a bucket of windows was deleted. It is needed because a put to a deleted bucket returns the same
// error as a put to a busy server.
func (cb *ContextBuilder) windowBucketMissing(ctx context.Context) bool {
	for _, bucket := range []string{events.BucketWindow, events.BucketState} {
		_, err := cb.conn.JetStream().KeyValue(ctx, bucket)
		isTemporary := bus.Unreachable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
		if err != nil && !isTemporary {
			return true
		}
	}
	return false
}
