package api

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"debrief/cmd/internal/api/index"
	"debrief/events"
	"debrief/events/bus"
)

// Numbers of sequences of the stream of executions that a list reads where the index does not cover them: at first, then at most at a
// time, and at most in all. The cursor continues a longer list.
const (
	firstSpan = 1 << 10
	maxSpan   = 1 << 13
	maxRead   = 1 << 17
)

// batch is the number of executions that a list reads at a time by their sequences.
const batch = 64

// newestFirst calls fn for the executions that match, with a sequence below end, newest first, until fn returns false. It returns the
// sequence below which the reading can continue, and 0 at the beginning of the stream. An end of 0 is that of the stream.
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
	covered, last := h.index.Executions.Range(f)
	if end > last+firstSpan { // after a start, the index is far behind
		return h.scanBack(ctx, f, first, end, fn)
	}
	if end > last+1 {
		next, err := h.scanBack(ctx, f, max(first, last+1), end, fn)
		if err != nil || next > 0 {
			return next, err
		}
		end = last + 1
	}
	start := end
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
		if end = next; next == 0 {
			break
		}
	}
	if covered > first {
		return h.scanBack(ctx, f, first, min(start, covered), fn)
	}
	return 0, nil
}

// readAll returns the executions with some sequences. One that has expired, or does not match, has no handle.
func (h *handler) readAll(ctx context.Context, f *index.Filter, seqs []uint64) ([]foundExecution, error) {
	all := make([]foundExecution, len(seqs))
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	const readers = 8
	for r := range readers {
		group.Go(func() {
			for i := r; i < len(seqs); i += readers {
				found, err := h.conn.Events.Find(ctx, events.StreamExecutions, seqs[i], func(events.ID) bool { return true })
				if err != nil && !errors.Is(err, bus.ErrNotFound) {
					failed.Store(&err)
					return
				}
				if e, ok := found.(*events.Execution); ok && e.Book == f.Book && f.Matches(e) {
					all[i] = foundExecution{newExecutionItem(seqs[i], e), seqs[i]}
					all[i].LabelSuspect = h.index.Executions.Doubt(seqs[i])
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return all, nil
}

// scanBack is newestFirst without the index, for sequences of at least first.
func (h *handler) scanBack(ctx context.Context, f *index.Filter, first, end uint64, fn func(ExecutionItem) bool) (uint64, error) {
	for span, read := uint64(firstSpan), uint64(0); end > first; span = min(2*span, maxSpan) {
		if read >= maxRead {
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
	}
	return 0, nil
}

// foundExecution is an execution in a span of the stream, without its long texts.
type foundExecution struct {
	ExecutionItem
	seq uint64
}

// readSpan returns the executions that match, with a sequence of at least from and below end, oldest first.
func (h *handler) readSpan(ctx context.Context, f *index.Filter, from, end uint64) (all []foundExecution, err error) {
	err = h.conn.Events.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(f.Book), from, func(s bus.Stored) error {
		if s.Seq >= end {
			return bus.ErrStop
		}
		if e, ok := s.Event.(*events.Execution); ok && f.Matches(e) {
			all = append(all, foundExecution{newExecutionItem(s.Seq, e), s.Seq})
		}
		return nil
	})
	if errors.Is(err, bus.ErrStop) {
		err = nil
	}
	return all, err
}
