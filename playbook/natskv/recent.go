package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"debrief/playbook"
)

// Recent calls fn for the deltas at the end of the book's log as far as the writer knows it, in order: those among the
// last n of the stream. Of a book that shares its stream with busier ones these are few.
func (w *Writer) Recent(ctx context.Context, n uint64, fn func(*playbook.Delta)) error {
	if w.seq == 0 || n == 0 {
		return nil
	}
	from := uint64(1)
	if w.seq > n {
		from = w.seq - n + 1
	}
	err := w.s.before(ctx, w.book, from, w.seq, w.chain, func(r *Record) { fn(&r.Delta) })
	if err != nil {
		return fmt.Errorf("read the end of the log of playbook %q: %w", w.book, err)
	}
	return nil
}

// before calls fn for the deltas from a sequence on up to one whose sequence and hash are known, in order. They are found
// from the last one back, because the first is not known to be part of the log.
func (s *Store) before(ctx context.Context, b playbook.Book, from, seq uint64, chain []byte, fn func(*Record)) error {
	var all []*candidate
	errPast := errors.New("past the last one")
	err := s.candidates(ctx, b, from, func(m *candidate) error {
		if m.Seq > seq {
			return errPast
		}
		all = append(all, m)
		return nil
	})
	if err != nil && !errors.Is(err, errPast) {
		return err
	}
	var deltas []*Record
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
