package deltalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"debrief/playbook"
)

// errNoIndex is a programming error of the caller.
var errNoIndex = errors.New("the index of covered ids is not open: call OpenIndex first")

// Covers reports whether the log already contains the effect of the event with this key. With playbook.FeedbackKey it
// reports whether the log covers feedback on a sample. The writer's index must be open.
func (s State) Covers(key playbook.CoverKey) (bool, error) {
	if s.ids == nil {
		return false, errNoIndex
	}
	return s.ids.has(key)
}

// OpenIndex opens the index of all ids that the log covers and keeps it current. It reuses the index of a closed writer
// of this store, or the file in IndexDir, and reads the later deltas from the log. If the index is missing, damaged or of
// another log, it reads the whole log.
func (w *Writer) OpenIndex(ctx context.Context) error {
	if w.ids != nil {
		return nil
	}
	x := w.s.takeIndex(w.book)
	err := w.updateIndex(ctx, x)
	if errors.Is(err, errOtherLog) {
		w.s.warn(fmt.Errorf("rebuild the index of covered ids of playbook %q: %w", w.book, err))
		x.reset()
		err = w.updateIndex(ctx, x)
	}
	if err != nil {
		x.close()
		return fmt.Errorf("index the covered ids of playbook %q: %w", w.book, err)
	}
	w.ids = x
	return nil
}

var errOtherLog = errors.New("it belongs to another log")

// updateIndex adds the deltas up to the one that the writer has folded last. It returns errOtherLog if the index is not
// of this log.
func (w *Writer) updateIndex(ctx context.Context, x *index) error {
	if x.seq > w.seq {
		return errOtherLog
	}
	indexed := x.seq
	log := &logCursor{book: w.book}
	if indexed > 0 {
		log = startAt(w.book, indexed) // reads the last delta of the index again, to compare its hash
	}
	err := w.s.readDeltas(ctx, log, func(r *Record) error {
		switch {
		case r.Seq > w.seq: // another writer has stored it after the last fold
			return errStop
		case r.Seq > indexed:
			x.add(r)
		case !bytes.Equal(r.Chain, x.chain):
			return errOtherLog
		}
		return nil
	})
	switch {
	case indexed > 0 && errors.Is(err, ErrBrokenLog): // the log does not contain the last delta of the index
		return errOtherLog
	case err != nil && !errors.Is(err, errStop):
		return err
	case x.seq != w.seq || !bytes.Equal(x.chain, w.chain):
		return fmt.Errorf("the log ended at sequence %d and now ends at %d: %w", w.seq, x.seq, ErrBrokenLog)
	}
	return nil
}

// Close ends the use of the writer. It keeps the index for the next writer of the store: in the index file, or in memory
// if IndexDir is empty. A writer without an open index need not be closed.
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

// takeIndex returns the index of the last closed writer of a book, or loads it from its file. It returns an empty index if
// there is neither.
func (s *Store) takeIndex(b playbook.Book) *index {
	s.mu.Lock()
	x := s.indexes[b]
	delete(s.indexes, b)
	s.mu.Unlock()
	if x != nil {
		return x
	}
	x = newIndex(s.IndexDir, b, s.minTail, s.warn)
	if err := x.load(); err != nil {
		s.warn(fmt.Errorf("%w; rebuilding it from the log", err))
	}
	return x
}

func (s *Store) warn(err error) {
	if s.OnIndexError != nil {
		s.OnIndexError(err)
	}
}
