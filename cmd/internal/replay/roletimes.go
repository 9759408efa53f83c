package replay

import (
	"context"
	"maps"
	"slices"
	"time"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
)

// span is the time in which a message was in progress.
type span struct{ from, to time.Time }

// roleSpans are the spans of one role in an epoch, and the time of its model calls.
type roleSpans struct {
	spans []span
	model time.Duration
}

// epochSpans are the spans of the roles in one epoch.
type epochSpans struct{ generator, reflector, curator roleSpans }

// roleTimer computes the time of the roles from the stored events of a run. Interruptions do not matter: events of
// earlier processes have their times.
type roleTimer struct {
	run    string
	epochs map[int]*epochSpans
	inputs map[uint64]input // of the Curator, by sequence
}

// input is a reflection or an edit of a run.
type input struct {
	epoch  int
	stored time.Time
	edit   bool
}

// roleTimes returns the time of each role in each epoch with a message, in the order of the epochs.
func (r *run) roleTimes(ctx context.Context) ([]report.EpochTime, error) {
	t := roleTimer{run: r.Name, epochs: map[int]*epochSpans{}, inputs: map[uint64]input{}}
	for _, s := range []struct {
		stream, subject string
		note            func(bus.Stored)
	}{
		{events.StreamExecutions, events.KindExecution.Subject(r.book), t.addExecution},
		{events.StreamReflections, events.KindReflection.Subject(r.book), t.addReflection},
		{events.StreamReflections, events.KindEdit.Subject(r.book), t.addEdit},
	} {
		if err := r.conn.ReadStored(ctx, s.stream, s.subject, func(st bus.Stored) error { s.note(st); return nil }); err != nil {
			return nil, err
		}
	}
	err := r.store.DeltasAfter(ctx, r.book, 0, func(rec *deltalog.Record) error { t.addDelta(rec); return nil })
	if err != nil {
		return nil, err
	}
	out := []report.EpochTime{}
	for _, epoch := range slices.Sorted(maps.Keys(t.epochs)) {
		e := t.epochs[epoch]
		row := report.EpochTime{Epoch: epoch, Generator: e.generator.time(), Reflector: e.reflector.time(), Curator: e.curator.time()}
		row.Curator.Model = r.state.curatorSeconds(epoch)
		out = append(out, row)
	}
	return out, nil
}

func (t *roleTimer) epoch(n int) *epochSpans {
	e := t.epochs[n]
	if e == nil {
		e = &epochSpans{}
		t.epochs[n] = e
	}
	return e
}

func (t *roleTimer) addExecution(s bus.Stored) {
	e, ok := s.Event.(*events.Execution)
	if !ok || e.Origin.Run != t.run || e.Started.IsZero() {
		return
	}
	g := &t.epoch(e.Origin.Epoch).generator
	g.spans = append(g.spans, span{e.Started, e.Started.Add(e.Duration)})
	g.model += e.Usage.Duration
}

func (t *roleTimer) addReflection(s bus.Stored) {
	ref, ok := s.Event.(*events.Reflection)
	if !ok || ref.Origin.Run != t.run {
		return
	}
	t.inputs[s.Seq] = input{epoch: ref.Origin.Epoch, stored: s.Time}
	f := &t.epoch(ref.Origin.Epoch).reflector
	f.spans = append(f.spans, span{ref.Created, s.Time})
	f.model += ref.Usage.Duration
}

// addEdit adds an edit of the run that gathers reflections. Its epoch is that of the reflections.
func (t *roleTimer) addEdit(s bus.Stored) {
	e, ok := s.Event.(*events.Edit)
	if !ok || e.Author != author || len(e.Gather) == 0 {
		return
	}
	if seq, _, err := e.Gather[0].Parse(); err == nil {
		if first, ok := t.inputs[seq]; ok {
			t.inputs[s.Seq] = input{first.epoch, s.Time, true}
		}
	}
}

// addDelta adds the work of the Curator on one delta: from its edit, or else from the first reflection that it covers. A
// gathered reflection waits for its edit; this wait does not count.
func (t *roleTimer) addDelta(rec *deltalog.Record) {
	var first input
	for i := range rec.Covers {
		if in, ok := t.inputs[rec.Covers[i].Seq]; ok && (first.stored.IsZero() || in.edit && !first.edit || in.edit == first.edit && in.stored.Before(first.stored)) {
			first = in
		}
	}
	if !first.stored.IsZero() {
		c := &t.epoch(first.epoch).curator
		c.spans = append(c.spans, span{first.stored, rec.Time})
	}
}

// time returns the length of the union of the spans, and the time of the model calls.
func (s *roleSpans) time() report.RoleTime {
	slices.SortFunc(s.spans, func(a, b span) int { return a.from.Compare(b.from) })
	var wall time.Duration
	var end time.Time
	for _, p := range s.spans {
		if p.from.Before(end) {
			p.from = end
		}
		if p.to.After(p.from) {
			wall += p.to.Sub(p.from)
			end = p.to
		}
	}
	return report.RoleTime{Wall: wall.Seconds(), Model: s.model.Seconds()}
}
