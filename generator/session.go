package generator

import (
	"context"
	"errors"
	"slices"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/window"
)

// past is what is kept of a session.
type past struct {
	window []*events.Interaction // oldest first, without the execution whose context it is
	marks  []events.Marked       // likewise
	turn   int                   // of that execution: its own where the window has it, else the next; 0 without a session
	seen   bool                  // the window has it
	// summary is of its older turns, nil where so few cannot have one.
	summary *events.Summary
}

// past reads what is kept of a session. An execution does not see itself, as it would when its task comes again, nor
// earlier rounds at its task, nor turns that came after the first of these.
func (d *Desk) past(ctx context.Context, o *order, missed *remarks) (p past) {
	b, session, own := o.book, o.session, o.execution
	if session == "" {
		return p
	}
	list, damaged, err := d.windows.Interactions(ctx, b, session)
	if err != nil {
		missed.add("session: %s", brief(ctx, err))
	}
	if damaged > 0 {
		missed.add("session: %d of its interactions could not be read", damaged)
	}
	last := 0
	for _, i := range list {
		if i.ID == own {
			p.turn, p.seen = i.Turn, true
			continue
		}
		if o.triedBefore(i.ID, i.Turn) {
			continue
		}
		last = max(last, i.Turn)
		p.window = append(p.window, i)
	}
	if !p.seen {
		p.turn = last + 1
	}
	if len(list) >= 2*d.cfg.turnsOfSummary() {
		if p.summary, err = d.windows.Summary(ctx, b, session); err != nil {
			missed.add("session: its summary: %s", brief(ctx, err))
		}
	}
	if p.marks, err = d.windows.Marks(ctx, b, session); err != nil {
		missed.add("session: its marks: %s", brief(ctx, err))
	}
	p.marks = slices.DeleteFunc(p.marks, func(m events.Marked) bool {
		return m.Interaction.ID == own || o.triedBefore(m.Interaction.ID, m.Interaction.Turn)
	})
	return p
}

// triedBefore reports whether an execution is an earlier round at the order's task, or stands in its session where that
// stood or later.
func (o *order) triedBefore(id events.ID, turn int) bool {
	if len(o.tries) == 0 {
		return false
	}
	return o.turn > 0 && turn >= o.turn || slices.ContainsFunc(o.tries, func(t events.Try) bool { return t.Execution == id })
}

// interaction is what is kept of an execution with this handle, if the session has it.
func (p *past) interaction(h events.Handle) *events.Interaction {
	for _, i := range p.window {
		if i.Execution == h {
			return i
		}
	}
	for k := range p.marks {
		if i := &p.marks[k].Interaction; i.Execution == h {
			return i
		}
	}
	return nil
}

// remember puts an execution that is stored into its session's window. Of two with one id that is the one that was stored
// first: it counts everywhere else.
func (d *Desk) remember(ctx context.Context, e *events.Execution, r bus.Receipt) error {
	if r.Duplicate {
		_, is, err := r.Handle.Parse()
		if err != nil {
			return err
		}
		first, err := d.conn.Find(ctx, events.StreamExecutions, r.Seq, is)
		if errors.Is(err, bus.ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		var ok bool
		if e, ok = first.(*events.Execution); !ok {
			return nil
		}
	}
	if e.Session == "" || e.Purpose == events.Evaluate {
		return nil
	}
	// A copy that comes after the turn has left the window must not become a new turn.
	first, err := d.windows.First(ctx, e.Book, window.Turn, e.ID, r.Seq)
	if err != nil || !first {
		return err
	}
	if err := d.windows.Add(ctx, e.Book, e.Session, events.NewInteraction(r.Handle, e)); err != nil {
		return err
	}
	if d.moved != nil {
		d.moved(e.Book, e.Session)
	}
	return nil
}

// rememberOrLog is remember for who has an answer to give: it returns an error only where it is worth the wait. A window is
// a cache, and what cannot be put into it at all must not cost the answer.
func (d *Desk) rememberOrLog(ctx context.Context, e *events.Execution, r bus.Receipt) error {
	err := d.remember(ctx, e, r)
	if err == nil || bus.Unreachable(err) && !d.windowless(ctx) {
		return err
	}
	d.conn.LogIn(ctx).Warn().Err(err).Str("execution", string(r.Handle)).Msg("is not in the window of its session")
	return nil
}

// windowless reports that there are no windows at all: somebody has deleted the bucket. To who only puts, that looks like
// a server that is busy.
func (d *Desk) windowless(ctx context.Context) bool {
	_, err := d.conn.JetStream().KeyValue(ctx, events.BucketWindow)
	return err != nil && !bus.Unreachable(err) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
