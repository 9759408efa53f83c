package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// A held reflection is acked when it comes and changes nothing: no delta covers it. It takes effect with the edit that
// gathers it, together with the others that the edit names, in the order of the edit and in one change, which covers the
// edit and each of them. What comes of it is a function of the book's log, of the reflections in that order and of what
// models say: it depends neither on when each came or how they were delivered, nor on the clock, nor on what else this
// process has seen. So
//
//   - whether something has taken effect the id of its sample decides, as for every event;
//   - what models are told was turned down is read from the whole log of the book, not from what happens to be in memory;
//   - there is no limit to the bullets that a session makes in some minutes, and nothing retires for having waited: a run
//     makes as many bullets as its samples teach, as fast as it can, and an operator asks for each batch by name. Trust in
//     sources, the budget and the gate hold as ever;
//   - where a call of a model fails, nothing takes effect and the edit is delivered again;
//   - a reflection of which every group got unusable replies is skipped: the change does not cover it, the decision counts
//     it, and a later edit can gather it.

// gathering is what an edit gathers, and what models made of it.
type gathering struct {
	of      []*docket // each once, without the skipped ones
	unfit   []string  // why it cannot be
	usage   chat.Usage
	asked   int    // number of reflections in requests to a model
	skipped int    // number of those without a usable reply
	reason  string // error of the first skipped one
}

func isHeld(e events.Event) bool {
	r, ok := e.(*events.Reflection)
	return ok && r.Origin.Held
}

// gathers reports whether a docket is an edit that gathers reflections.
func (k *docket) gathers() bool { return k.e != nil && len(k.e.Gather) > 0 }

// fetch reads the reflections of an edit and asks models about them, against the newest state. When a model fails, its error
// is the result of the edit, and fetch returns the other cases.
func (d *desk) fetch(ctx context.Context, b *book, k *docket, cases []*docket) (left []*docket, err error) {
	g := new(gathering)
	known := make(map[events.ID]bool, len(k.e.Gather)) // by sample
	log := lookup{state: b.w.State()}
	var open []*docket
	for _, h := range k.e.Gather {
		r, seq, err := d.held(ctx, b.name, h)
		if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
			g.unfit = append(g.unfit, fmt.Sprintf("gather: %s %s", clip(string(h), maxName), unfit.why))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("gather %s: %w", h, err)
		}
		if known[r.SampleID()] {
			continue
		}
		known[r.SampleID()] = true
		one := &docket{id: r.ID, seq: seq, r: r, result: &bus.Result{Err: errUnsettled}}
		g.of = append(g.of, one)
		if !log.covered(one) {
			open = append(open, one)
		}
	}
	if log.err != nil {
		return nil, log.err
	}
	if len(g.unfit) == 0 {
		h := &hearing{memory: &b.annals.memory, load: func(ctx context.Context) error { return b.annals.read(ctx, d.store, b) }, whole: true}
		heard, err := d.propose(ctx, b, h, open)
		if err != nil {
			return nil, err
		}
		if h.err != nil {
			*k.result = bus.Result{Err: fmt.Errorf("gather %d reflections: %w", len(open), h.err)}
			return slices.DeleteFunc(slices.Clone(cases), func(other *docket) bool { return other == k }), nil
		}
		g.usage, g.asked = h.usage, h.asked
		g.skip(open, heard)
	}
	k.gathering = g
	return cases, nil
}

// skip leaves out the reflections that have no usable model reply: those asked about that were not heard.
func (g *gathering) skip(asked, heard []*docket) {
	for _, one := range asked {
		if slices.Contains(heard, one) {
			continue
		}
		if g.skipped++; g.reason == "" {
			g.reason = one.result.Err.Error()
		}
		g.of = slices.DeleteFunc(g.of, func(other *docket) bool { return other == one })
	}
}

// tell copies the usage and the counts into a decision.
func (g *gathering) tell(d *events.Decision) {
	d.Usage, d.Asked, d.Skipped, d.SkippedReason = g.usage, g.asked, g.skipped, g.reason
}

// unfitError says why something cannot be gathered.
type unfitError struct{ why string }

func (e *unfitError) Error() string { return e.why }

// held is the held reflection of a book that a handle names.
func (d *desk) held(ctx context.Context, b playbook.Book, h events.Handle) (*events.Reflection, uint64, error) {
	seq, is, err := h.Parse()
	if err != nil {
		return nil, 0, &unfitError{"is no handle"}
	}
	found, err := d.conn.Find(ctx, events.StreamReflections, seq, is)
	if errors.Is(err, bus.ErrGone) {
		return nil, 0, &unfitError{err.Error()}
	}
	if err != nil {
		return nil, 0, err
	}
	r, ok := found.(*events.Reflection)
	switch {
	case !ok:
		return nil, 0, &unfitError{fmt.Sprintf("is a stored %s and no reflection", found.Kind())}
	case r.Book != b:
		return nil, 0, &unfitError{fmt.Sprintf("is of playbook %q", r.Book)}
	case !r.Origin.Held:
		return nil, 0, &unfitError{"is not held: it takes effect by itself"}
	case r.Judged > 0:
		return nil, 0, &unfitError{"is on feedback, which is not gathered"}
	}
	return r, seq, nil
}

// gather drafts what the reflections of an edit ask for, but those that the log has the effect of. It returns why not, or
// nil.
func (d *draft) gather(k *docket, covered func(*docket) bool, out *playbook.Delta) *refusal {
	d.person = false
	d.burst, d.now, d.doubts = burst{}, time.Time{}, nil
	out.Author, out.Reason = Author, clip(strings.TrimSuffix(fmt.Sprintf("gathered by %s: %s", out.Author, out.Reason), ": "), maxReason)
	size := coverBytes(&d.covers[k.cover])
	for _, one := range k.gathering.of {
		if covered(one) {
			continue
		}
		one.cover = d.cover(one)
		if size += coverBytes(&d.covers[one.cover]); size > fullBytes {
			return no("gather: the evidence of %d reflections does not fit in one change: gather fewer at a time", len(k.gathering.of))
		}
		d.reflection(one)
		if one.model != "" {
			out.Model, out.Prompt = one.model, PromptVersion
		}
	}
	return nil
}

// tell says in a decision what came of a gathering, if it was not refused.
func (d *draft) tell(to *events.Decision) {
	if len(to.Refused) > 0 {
		return
	}
	to.Changed, to.Added = len(d.changed), nil
	for i := range d.ops {
		if d.ops[i].Kind == playbook.Add {
			to.Added = append(to.Added, d.ops[i].Bullet)
		}
	}
}

// annals are the memory of all of a book's log: whoever reads it, and whenever, they are the same.
type annals struct {
	memory memory
	parts  playbook.Parts
	readTo uint64
}

var errRead = errors.New("read as far as it is known")

// read reads on, to the state that the book's writer knows.
func (a *annals) read(ctx context.Context, store *natskv.Store, b *book) error {
	newest := b.w.State().Playbook().Version()
	err := store.Since(ctx, b.name, a.readTo, func(r *natskv.Record) error {
		if r.Version > newest {
			return errRead
		}
		for _, delta := range a.parts.Take(&r.Delta) {
			a.memory.note(delta)
		}
		a.readTo = r.Seq
		return nil
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return err
}
