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
)

// late is what makes a reflection one on feedback: which, where it is stored, and whether the outcome was known before.
type late struct {
	feedback events.ID
	judged   uint64
	corrects bool
	first    bool // nothing was made of the execution before
}

// settled is the execution that feedback is on, with the outcome that it leaves. It returns when the execution itself has
// been reflected on, or given up: what corrects votes had better come after what casts them.
//
// An execution without an outcome and without a signal taught nothing by itself. The first feedback on it, if it tells the
// outcome, finds nothing that would have to be moved, and waits for nothing.
func settled(ctx context.Context, conn *bus.Conn, windows *window.Store, f *events.Feedback, at uint64, attempt int) (*events.Execution, late, error) {
	l := late{feedback: f.ID, judged: at}
	seq, is, err := f.Execution.Parse()
	if err != nil {
		return nil, l, bus.Discard(err)
	}
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrGone) {
		return nil, l, bus.Discard(err)
	}
	if err != nil {
		return nil, l, err
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Book != f.Book {
		return nil, l, bus.Discard(fmt.Errorf("is no execution of book %q", f.Book))
	}
	if e.Purpose == events.Evaluate || e.Origin.Held { // nobody learns from it
		return e, l, nil
	}
	l.corrects = e.Outcome.Known()
	if !l.corrects && !signal(e) && f.Outcome.Complete().Known() {
		if l.first, err = windows.First(ctx, f.Book, window.Judgment, e.Sample(), at); err != nil {
			return nil, l, err
		}
		if l.first {
			e.Outcome, e.Target = e.Outcome.After(f), cmp.Or(f.Target, e.Target)
			return e, l, nil
		}
	}
	said, err := saidBefore(ctx, conn, f, e.ID, at)
	if err != nil {
		return nil, l, err
	}
	for _, f := range append(said, f) {
		e.Outcome, e.Target = e.Outcome.After(f), cmp.Or(f.Target, e.Target)
	}
	if attempt > waits {
		return e, l, nil
	}
	return e, l, waitReflected(ctx, conn, seq)
}

// ownWait bounds how long feedback waits for what comes before it, at each of its first deliveries. Executions that are
// tried for longer, or wait for a model that is away, do not hold it up: the Curator takes a correction that comes before
// what it corrects.
const (
	ownWait = 10 * time.Second
	waits   = 3
)

// saidBefore is the feedback on the same execution that was stored earlier, under any of its handles, where this one needs
// it: it does not judge itself, so that the last judgement counts.
func saidBefore(ctx context.Context, conn *bus.Conn, f *events.Feedback, execution events.ID, at uint64) (said []*events.Feedback, err error) {
	if f.Outcome.Complete().Known() {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, ownWait)
	defer stop()
	err = conn.Poll(ctx, events.StreamExecutions, events.KindFeedback.Subject(f.Book), 1, 5*time.Millisecond, func(s bus.Stored) error {
		if s.Seq >= at {
			return bus.ErrStop
		}
		other, ok := s.Event.(*events.Feedback)
		if !ok {
			return nil
		}
		same, err := names(ctx, conn, other.Execution, f.Execution, execution)
		if same {
			said = append(said, other)
		}
		return err
	})
	return said, err
}

// names reports whether a handle is the one that is known of an execution, or that of a resent copy of it.
func names(ctx context.Context, conn *bus.Conn, h, known events.Handle, execution events.ID) (bool, error) {
	if h == known {
		return true, nil
	}
	seq, is, err := h.Parse()
	if err != nil || !is(execution) { // the handle has a part of the id
		return false, nil
	}
	_, err = conn.Find(ctx, events.StreamExecutions, seq, func(id events.ID) bool { return id == execution })
	if errors.Is(err, bus.ErrGone) {
		return false, nil
	}
	return err == nil, err
}

// waitReflected returns when everything up to a sequence of the executions' stream has been settled.
func waitReflected(ctx context.Context, conn *bus.Conn, seq uint64) error {
	until := time.Now().Add(ownWait)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		lag, err := conn.Lag(ctx, events.RoleReflector)
		switch {
		case err != nil:
			return err
		case lag.Floor >= seq:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("the execution, or one before it, is not reflected on yet: everything up to %d is, it is at %d", lag.Floor, seq)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
