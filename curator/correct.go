package curator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/curator/draft"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// A correction is a reflection on feedback that replaces the votes and outcomes of its sample. It reads the current votes
// and outcomes from the log, up to the version before its own delta, so it gets a separate delta. It also waits until
// the earlier reflections on the same sample are in the log; reflections on other samples do not matter. The wait is
// limited to some attempts. If an earlier reflection is committed after the correction, all of it is rejected
// (ReasonCorrected) and its lessons are lost. The wait makes that rare.
//
// The first feedback on an execution that had no outcome before has no votes to replace. Its reflection is not a
// correction, unless other feedback on the same sample was faster.

// sortCorrectionsLast moves corrections behind the other items, in the order of the stream.
func sortCorrectionsLast(items []*workItem) {
	slices.SortStableFunc(items, func(a, b *workItem) int {
		switch x, y := a.IsCorrection(), b.IsCorrection(); {
		case x && y && a.Seq < b.Seq, !x && y:
			return -1
		case x && y && a.Seq > b.Seq, x && !y:
			return 1
		}
		return 0
	})
}

// Bounds of the wait for earlier reflections on the same sample. The wait is short because it blocks the book; a
// reflection that arrives in this process meanwhile is in the batch of the next attempt.
const (
	earlierWait  = 2 * time.Second // in each attempt that waits
	waitAttempts = 4               // attempts that wait, out of five deliveries
)

// prepareCorrections waits for earlier reflections and reads the votes and outcomes of a correction from the log. It returns
// the items that are left, those that wait for nothing first. If every correction has waited without success, each gets an
// error as its result and leaves the batch. failed reports whether an event failed in this batch.
func (w *worker) prepareCorrections(
	ctx context.Context, b *book, item *workItem, items []*workItem, failed func(seq uint64) bool,
) (left []*workItem, err error) {
	if !item.EarlierDone {
		missing, err := w.waitForEarlier(ctx, b, items, failed)
		if err != nil {
			return nil, err
		}
		var ready, waiting []*workItem
		for _, item := range items {
			if missing[item] > 0 {
				waiting = append(waiting, item)
			} else {
				item.EarlierDone = item.EarlierDone || item.IsCorrection()
				ready = append(ready, item)
			}
		}
		if !slices.ContainsFunc(ready, func(item *workItem) bool { return item.EarlierDone }) {
			waiting = slices.DeleteFunc(waiting, func(item *workItem) bool {
				if item.EarlierDone = item.attempt > waitAttempts; !item.EarlierDone {
					err := fmt.Errorf("correct votes: earlier reflection %d on the same sample is not in the log", missing[item])
					*item.result = bus.Result{Err: err}
				}
				return !item.EarlierDone
			})
		}
		if items = append(ready, waiting...); missing[item] > 0 {
			return items, nil
		}
	}
	return items, w.readContributions(ctx, b, item, items)
}

// readContributions reads the log for a correction, and at once for the other corrections that have read as far.
func (w *worker) readContributions(ctx context.Context, b *book, item *workItem, items []*workItem) error {
	var with []*workItem
	for _, other := range items {
		if !other.IsCorrection() || other.readSeq != item.readSeq {
			continue
		}
		if other.Contribution == nil {
			other.Contribution = history.NewContribution(string(other.Reflection.SampleID()))
		}
		with = append(with, other)
	}
	return w.store.DeltasAfter(ctx, b.name, item.readSeq, func(r *deltalog.Record) error {
		for _, other := range with {
			other.Contribution.Apply(&r.Delta)
			other.readSeq = r.Seq
		}
		return nil
	})
}

// waitForEarlier waits until at least one correction has all earlier reflections on its sample in the log or dead-lettered.
// For each other correction it returns the sequence of a missing reflection. It does not wait for reflections of the same
// batch. It waits for lower sequences only, so that two processes never wait for each other.
func (w *worker) waitForEarlier(
	ctx context.Context, b *book, items []*workItem, failed func(seq uint64) bool,
) (missing map[*workItem]uint64, err error) {
	waiting, last, batch := map[events.ID][]*workItem{}, uint64(0), map[uint64]bool{}
	corrections := 0
	for _, item := range items {
		batch[item.Seq] = true
		if item.IsCorrection() && !item.EarlierDone {
			id := item.Reflection.SampleID()
			waiting[id], last = append(waiting[id], item), max(last, item.Seq)
			corrections++
		}
	}
	floor, err := w.ackFloor(ctx)
	if err != nil {
		return nil, err
	}
	earlier, err := w.reflectionsBetween(ctx, b.name, max(floor, b.writer.State().Floor()), last)
	if err != nil {
		return nil, err
	}
	earlier = slices.DeleteFunc(earlier, func(e *workItem) bool { return batch[e.Seq] || waiting[e.Reflection.SampleID()] == nil })
	earlierFailed := func(e *workItem) bool { return failed(e.Seq) }
	until := time.Now().Add(earlierWait)
	var log coverLookup
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		if err := b.writer.CheckView(ctx); err != nil { // also reads the end of the log
			return nil, err
		}
		if floor, err = w.ackFloor(ctx); err != nil {
			return nil, err
		}
		log.state = b.writer.State()
		earlier = slices.DeleteFunc(earlier, func(e *workItem) bool { return e.Seq <= floor || log.covered(&e.Item) })
		if log.err != nil {
			return nil, log.err
		}
		missing = map[*workItem]uint64{}
		for _, e := range slices.Backward(earlier) {
			for _, item := range waiting[e.Reflection.SampleID()] {
				if e.Seq < item.Seq {
					missing[item] = e.Seq
				}
			}
		}
		if len(missing) < corrections || time.Now().After(until) || slices.ContainsFunc(earlier, earlierFailed) {
			return missing, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// readTimeout is the timeout for reading a range of the stream.
const readTimeout = 10 * time.Second

// reflectionsBetween returns the reflections of a book with a sequence after one and before another, without held ones. It
// skips messages that cannot be decoded, because they are dead-lettered.
func (w *worker) reflectionsBetween(ctx context.Context, b playbook.Book, after, before uint64) (found []*workItem, err error) {
	if after+1 >= before {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	subject := events.KindReflection.Subject(b)
	err = w.conn.Poll(ctx, events.StreamReflections, subject, after+1, 5*time.Millisecond, func(s bus.Stored) error {
		switch {
		case s.Seq >= before:
			return bus.ErrStop
		case !isHeld(s.Event): // a held reflection has no votes by itself
			if r, ok := s.Event.(*events.Reflection); ok {
				found = append(found, &workItem{Item: draft.Item{ID: r.ID, Seq: s.Seq, Reflection: r}})
			}
		}
		return nil
	})
	return found, err
}
