package natskv

import (
	"context"
	"fmt"

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
	err := w.s.deltas(ctx, w.book, from, func(r *Record) error {
		fn(&r.Delta)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the end of the log of playbook %q: %w", w.book, err)
	}
	return nil
}
