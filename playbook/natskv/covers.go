package natskv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"debrief/playbook"
)

// One id has one effect. The authority is the log: a delta names the executions, feedback and edits that it covers, and
// the index has all their ids. The Curator looks up every event in it before it commits, also one that comes for the
// first time, and the compare-and-swap proves that nothing was covered in between.

// errNoIndex is a mistake of the caller.
var errNoIndex = errors.New("the index of covered ids is not open: call OpenIndex first")

// Covers reports whether the log already holds the effect of the event with this key. With playbook.JudgedKey it reports
// whether the log covers feedback on a sample. The writer's index must be open.
func (s State) Covers(key playbook.CoverKey) (bool, error) {
	if s.ids == nil {
		return false, errNoIndex
	}
	return s.ids.has(key)
}

// OpenIndex makes the writer know the ids of everything that its log has ever covered, and keeps that current. The index
// comes from memory, where a writer of this store was closed, or from a file of IndexDir. Later deltas are read from the
// log, and all deltas if the index is missing, damaged or of another log.
func (w *Writer) OpenIndex(ctx context.Context) error {
	if w.ids != nil {
		return nil
	}
	x := w.s.closedIndex(w.book)
	err := w.follow(ctx, x)
	if errors.Is(err, errOtherLog) {
		w.s.warn(fmt.Errorf("rebuild the index of covered ids of playbook %q: %w", w.book, err))
		x.reset()
		err = w.follow(ctx, x)
	}
	if err != nil {
		x.close()
		return fmt.Errorf("index the covered ids of playbook %q: %w", w.book, err)
	}
	w.ids = x
	return nil
}

var (
	errOtherLog = errors.New("it is of another log")
	errUpToDate = errors.New("up to date")
)

// follow brings an index to the delta that the writer has folded last.
func (w *Writer) follow(ctx context.Context, x *index) error {
	if x.seq > w.seq {
		return errOtherLog
	}
	from, log := x.seq, &logCursor{book: w.book}
	if from > 0 {
		log = startAt(w.book, from)
	}
	err := w.s.deltas(ctx, log, func(r *Record) error {
		switch {
		case r.Seq > w.seq:
			return errUpToDate
		case r.Seq > from:
			x.add(r)
		case !bytes.Equal(r.Chain, x.chain):
			return errOtherLog
		}
		return nil
	})
	switch {
	case from > 0 && errors.Is(err, ErrBrokenLog): // it does not hold the delta that the index ends with
		return errOtherLog
	case err != nil && !errors.Is(err, errUpToDate):
		return err
	case x.seq != w.seq || !bytes.Equal(x.chain, w.chain):
		return fmt.Errorf("the log ended at sequence %d, and now at %d: %w", w.seq, x.seq, ErrBrokenLog)
	}
	return nil
}

// Close ends the use of the writer and keeps its index for the next one of the store: in its file, or in memory where the
// store has no directory. A writer without an index need not be closed.
func (w *Writer) Close() {
	if w.ids == nil {
		return
	}
	x := w.ids
	w.ids = nil
	x.save()
	if x.file != nil {
		x.close()
		return
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.indexes[w.book] = x
}

// closedIndex returns the index that the last writer of a book has left, or an empty one.
func (s *Store) closedIndex(b playbook.Book) *index {
	s.mu.Lock()
	x := s.indexes[b]
	delete(s.indexes, b)
	s.mu.Unlock()
	if x != nil {
		return x
	}
	x = newIndex(s.IndexDir, b, s.minTail, s.warn)
	if err := x.load(); err != nil {
		s.warn(fmt.Errorf("it is built again from the log: %w", err))
	}
	return x
}

func (s *Store) warn(err error) {
	if s.Warn != nil {
		s.Warn(err)
	}
}
