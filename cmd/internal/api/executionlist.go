package api

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/events/bus"
)

// A list of executions goes back through the stream of executions, which has three parts, the newest first:
//
//   - sequences that the index has not read yet: a list scans them;
//   - sequences that the index covers: a list reads only the executions that the index finds;
//   - sequences that the index has dropped: a list scans them.
//
// Each function gets an end, the sequence above the first that it may return. It returns the end for the next call, 0 if nothing older is
// left.

// Numbers of sequences that a list scans without the index.
const (
	firstSpan = 1 << 10 // first scan; each further one is twice as long
	maxSpan   = 1 << 13 // longest scan
	maxRead   = 1 << 17 // of one request; the cursor continues the list
	maxSearch = 1 << 15 // of one request that looks for words
)

// batch is the number of executions that a list reads at a time after it found them by the index.
const batch = 64

// newestFirst calls fn for the executions that match, with a sequence below end, newest first, until fn returns false. It returns the
// end for the next call, 0 at the beginning of the stream. An end of 0 is the end of the stream.
func (h *handler) newestFirst(ctx context.Context, f *index.Filter, end uint64, fn func(ExecutionItem) bool) (uint64, error) {
	stream, err := h.conn.JetStream().Stream(ctx, events.StreamExecutions)
	if err != nil {
		return 0, err
	}
	state := stream.CachedInfo().State
	if end == 0 || end > state.LastSeq+1 {
		end = state.LastSeq + 1
	}
	first := max(state.FirstSeq, 1)
	oldest, last := h.index.Executions.Range(f)
	if end > last+firstSpan || f.OnlyWords() { // the index is far behind, as after a start, or of no use
		return h.scanBack(ctx, f, first, end, fn)
	}
	if end > last+1 {
		next, err := h.scanBack(ctx, f, max(first, last+1), end, fn)
		if err != nil || next > 0 {
			return next, err
		}
		end = last + 1
	}
	endOfDropped := min(end, oldest) // the end of the sequences that the index has dropped
	for end > first {
		seqs, next := h.index.Executions.Find(f, end, batch)
		all, err := h.readAll(ctx, f, seqs)
		if err != nil {
			return 0, err
		}
		for _, e := range all {
			if e.Handle != "" && !fn(e.ExecutionItem) {
				return e.seq, nil
			}
		}
		if next == 0 {
			break
		}
		end = next
	}
	if oldest > first { // the index has dropped older executions
		return h.scanBack(ctx, f, first, endOfDropped, fn)
	}
	return 0, nil
}

// readAll returns an entry for each sequence. The entry of an execution that has expired, or that does not match, is empty and has no
// handle.
func (h *handler) readAll(ctx context.Context, f *index.Filter, seqs []uint64) ([]foundExecution, error) {
	all := make([]foundExecution, len(seqs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, seq := range seqs {
		group.Go(func() error {
			found, err := h.conn.Events.Find(ctx, events.StreamExecutions, seq, func(events.ID) bool { return true })
			if err != nil && !errors.Is(err, bus.ErrNotFound) {
				return err
			}
			if e, ok := found.(*events.Execution); ok && e.Book == f.Book {
				if item, ok := h.matching(f, seq, e); ok {
					all[i] = item
				}
			}
			return nil
		})
	}
	return all, group.Wait()
}

// scanBack is newestFirst without the index, for sequences of at least first. It returns 0 if it has read all of them.
func (h *handler) scanBack(ctx context.Context, f *index.Filter, first, end uint64, fn func(ExecutionItem) bool) (uint64, error) {
	span, read, limit := uint64(firstSpan), uint64(0), uint64(maxRead)
	if len(f.Words) > 0 {
		limit = maxSearch
	}
	for end > first {
		if read >= limit {
			return end, nil
		}
		from := max(first, end-min(end, span))
		read += end - from
		all, err := h.readSpan(ctx, f, from, end)
		if err != nil {
			return 0, err
		}
		for _, e := range slices.Backward(all) {
			if !fn(e.ExecutionItem) {
				return e.seq, nil
			}
		}
		end = from
		span = min(2*span, maxSpan)
	}
	return 0, nil
}

// foundExecution is an execution of the stream, without its long texts.
type foundExecution struct {
	ExecutionItem
	seq uint64
}

// matching returns an execution of the playbook as an item, with what the index knows of later events. ok reports whether it matches, with
// the outcome after feedback.
func (h *handler) matching(f *index.Filter, seq uint64, e *events.Execution) (item foundExecution, ok bool) {
	item = foundExecution{newExecutionItem(seq, e), seq}
	item.LabelSuspect, item.Corrected = h.index.Executions.Doubt(seq), h.index.Executions.Corrected(seq)
	if item.Corrected != nil {
		e.Outcome.Label = item.Corrected.Label
	}
	return item, f.Matches(e)
}

// readSpan returns the executions that match, with a sequence of at least from and below end, oldest first.
func (h *handler) readSpan(ctx context.Context, f *index.Filter, from, end uint64) (all []foundExecution, err error) {
	err = h.conn.Events.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(f.Book), from, func(s bus.Stored) error {
		if s.Seq >= end {
			return bus.ErrStop
		}
		if e, ok := s.Event.(*events.Execution); ok {
			if item, ok := h.matching(f, s.Seq, e); ok {
				all = append(all, item)
			}
		}
		return nil
	})
	if errors.Is(err, bus.ErrStop) {
		err = nil
	}
	return all, err
}
