package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/text"
)

// A held reflection is acknowledged without an effect, and no delta covers it. It takes effect later, with an edit that
// gathers it. The edit lists reflections. They take effect in the order of the list and in one change, which covers the
// edit and each reflection. The result depends only on the log of the playbook, the reflections and the replies of the
// models. It does not depend on delivery times, the clock or the memory of this process. Therefore:
//
//   - Rejected texts for the prompts are read from the complete log of the playbook, not from the rejection log in memory.
//   - The limit of new bullets per session does not apply: a replay adds bullets as fast as it can, and an operator names each
//     batch. Trust, budgets and the gate apply as usual.
//   - If a model is unavailable, nothing takes effect and the edit is delivered again.
//   - If all groups of a reflection got unusable replies, the reflection is skipped: the change does not cover it, the
//     decision counts it, and a later edit can gather it.

// gatherResult contains the reflections that an edit gathers, and the result of their proposal round.
type gatherResult struct {
	items      []*workItem // without duplicates and skipped reflections
	problems   []string    // a sentence for each reflection that cannot be gathered
	usage      chat.Usage
	asked      int    // number of reflections in requests to a model
	skipped    int    // number of those without a usable reply
	skipReason string // error of the first skipped one
}

// isHeld reports whether an event is a held reflection.
func isHeld(e events.Event) bool {
	r, ok := e.(*events.Reflection)
	return ok && r.Origin.Held
}

// gatherItems reads the reflections of the edit item and gets proposals for them against the newest state. It returns items. If a model
// fails, its error is the result of the edit, and gatherItems returns the items without it.
func (w *worker) gatherItems(ctx context.Context, b *book, item *workItem, items []*workItem) (left []*workItem, err error) {
	g := new(gatherResult)
	known := make(map[events.ID]bool, len(item.Edit.Gather)) // by sample
	log := coverLookup{state: b.writer.State()}
	var open []*workItem // those that need proposals
	for _, h := range item.Edit.Gather {
		r, seq, err := w.findHeld(ctx, b.name, h)
		if invalid := (*gatherError)(nil); errors.As(err, &invalid) {
			g.problems = append(g.problems, fmt.Sprintf("gather %s: %s", text.Excerpt(string(h), screen.MaxName), invalid.reason))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("gather %s: %w", h, err)
		}
		if known[r.SampleID()] {
			continue
		}
		known[r.SampleID()] = true
		gathered := &workItem{Item: propose.Item{Item: draft.Item{ID: r.ID, Seq: seq, Reflection: r}}, result: &bus.Result{Err: errPending}}
		g.items = append(g.items, gathered)
		if !log.covered(&gathered.Item.Item) {
			open = append(open, gathered)
		}
	}
	if log.err != nil {
		return nil, log.err
	}
	if len(g.problems) == 0 { // else the edit is refused, and needs no proposals
		round := &propose.Round{AllOrNothing: true}
		answered, err := w.propose(ctx, b, round, open)
		if err != nil {
			return nil, err
		}
		if round.Err != nil {
			*item.result = bus.Result{Err: fmt.Errorf("gather %d reflections: %w", len(open), round.Err)}
			left = slices.DeleteFunc(slices.Clone(items), func(other *workItem) bool { return other == item })
			return left, nil //nolint:nilerr // the error is the result of the edit
		}
		g.usage, g.asked = round.Usage, round.Asked
		g.removeSkipped(open, answered)
	}
	item.gathered, item.Gathered = g, &draft.Gathered{Items: drafts(g.items), Problems: g.problems}
	return items, nil
}

// removeSkipped removes the reflections without a usable reply: those of asked that are not in answered.
func (g *gatherResult) removeSkipped(asked, answered []*workItem) {
	for _, item := range asked {
		if slices.Contains(answered, item) {
			continue
		}
		g.skipped++
		if g.skipReason == "" {
			g.skipReason = item.result.Err.Error()
		}
		g.items = slices.DeleteFunc(g.items, func(other *workItem) bool { return other == item })
	}
}

// fillDecision copies the token usage and the counts into a decision.
func (g *gatherResult) fillDecision(d *events.EditReply) {
	d.Usage = g.usage
	d.Asked = g.asked
	d.Skipped = g.skipped
	d.SkippedReason = g.skipReason
}

// gatherError is the reason why a reflection cannot be gathered, however often it is tried.
type gatherError struct{ reason string }

func (e *gatherError) Error() string { return e.reason }

// findHeld reads the held reflection with a handle and its sequence in the stream. It returns a gatherError if the handle is
// not that of a held reflection of the playbook.
func (w *worker) findHeld(ctx context.Context, b playbook.Book, h events.Handle) (*events.Reflection, uint64, error) {
	seq, matches, err := h.Parse()
	if err != nil {
		return nil, 0, &gatherError{"invalid handle"}
	}
	found, err := w.conn.Events.Find(ctx, events.StreamReflections, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, 0, &gatherError{err.Error()}
	}
	if err != nil {
		return nil, 0, err
	}
	r, ok := found.(*events.Reflection)
	switch {
	case !ok:
		return nil, 0, &gatherError{fmt.Sprintf("event of kind %q, want a reflection", found.Kind())}
	case r.Book != b:
		return nil, 0, &gatherError{fmt.Sprintf("belongs to playbook %q", r.Book)}
	case !r.Origin.Held:
		return nil, 0, &gatherError{"not held: it takes effect without an edit"}
	case r.FeedbackSeq > 0:
		return nil, 0, &gatherError{"reflection on feedback: it takes effect without an edit"}
	}
	return r, seq, nil
}

// fullRejections is a rejection log of the complete log of a book, so that it is equal in every process.
type fullRejections struct {
	propose.RejectionLog
	parts   playbook.ChangeAssembler
	readSeq uint64 // sequence of the last delta that was read
}

var errUpToDate = errors.New("end of the known log")

// read continues to read the log up to the version of the writer.
func (l *fullRejections) read(ctx context.Context, store *deltalog.Store, b *book) error {
	newest := b.writer.State().Playbook().Version()
	err := store.DeltasAfter(ctx, b.name, l.readSeq, func(r *deltalog.Record) error {
		if r.Version > newest {
			return errUpToDate
		}
		for _, delta := range l.parts.Add(&r.Delta) {
			l.Add(delta)
		}
		l.readSeq = r.Seq
		return nil
	})
	if errors.Is(err, errUpToDate) {
		return nil
	}
	return err
}
