package deltalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"debrief/playbook"
)

// RecentDeltas calls fn in order for the folded deltas of the book that are among the last n sequences of the stream. There are
// fewer than n if other books share the stream.
func (w *Writer) RecentDeltas(ctx context.Context, n uint64, fn func(*playbook.Delta)) error {
	if w.seq == 0 || n == 0 {
		return nil
	}
	from := uint64(1)
	if w.seq > n {
		from = w.seq - n + 1
	}
	err := w.s.readBack(ctx, w.book, from, w.seq, w.chain, func(r *Record) { fn(&r.Delta) })
	if err != nil {
		return fmt.Errorf("read the end of the log of playbook %q: %w", w.book, err)
	}
	return nil
}

// readBack calls fn in order for the deltas from a sequence up to the delta with a known sequence and hash. It follows
// the links from the last delta backwards, because the first message may be a stray.
func (s *Store) readBack(ctx context.Context, b playbook.Book, from, seq uint64, chain []byte, fn func(*Record)) error {
	var all []*candidate
	err := s.scanLog(ctx, b, from, func(m *candidate) error {
		if m.Seq > seq {
			return errStop
		}
		all = append(all, m)
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	var deltas []*Record // newest first
	for _, m := range slices.Backward(all) {
		if m.err == nil && m.Seq == seq && bytes.Equal(m.Chain, chain) {
			deltas = append(deltas, m.Record)
			seq, chain = m.PrevSeq, m.PrevChain
		}
	}
	for _, r := range slices.Backward(deltas) {
		fn(r)
	}
	return nil
}
