package deltalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"debrief/playbook"
)

// errNoIndex is a programming error of the caller.
var errNoIndex = errors.New("the index of covered ids is not open: call OpenIndex first")

// index is the set of keys of all events that a book's log covers, up to a delta. A key is as wide as an event's id, so the index is
// exact. A million ids take about 30 MB.
type index struct {
	keys  map[playbook.CoverKey]struct{}
	seq   uint64 // of the last indexed delta; 0 for none
	chain []byte // its hash
	// marks are the sequences of two deltas, at least maxRecentSeqs apart, or 0 for the beginning of the log. RecentDeltas reads from the first
	// one. The second one takes its place when the log has grown by maxRecentSeqs.
	marks [2]uint64
}

// add indexes the covers of the next delta of the log.
func (x *index) add(r *Record) {
	if x.keys == nil {
		x.keys = make(map[playbook.CoverKey]struct{})
	}
	for i := range r.Covers {
		c := &r.Covers[i]
		x.keys[c.Key()] = struct{}{}
		if c.Evidence != nil && c.Evidence.FeedbackSeq > 0 {
			x.keys[playbook.FeedbackKey(c.Evidence.Sample)] = struct{}{}
		}
	}
	x.seq, x.chain = r.Seq, r.Chain
	if r.Seq-x.marks[1] >= maxRecentSeqs {
		x.marks = [2]uint64{x.marks[1], r.Seq}
	}
}

func (x *index) has(key playbook.CoverKey) bool {
	_, ok := x.keys[key]
	return ok
}

// Covers reports whether the log already contains the effect of the event with this key. With playbook.FeedbackKey it
// reports whether the log covers feedback on a sample. The writer's index must be open.
func (s State) Covers(key playbook.CoverKey) (bool, error) {
	if s.ids == nil {
		return false, errNoIndex
	}
	return s.ids.has(key), nil
}

// OpenIndex opens the index of all ids that the log covers, and keeps it current. It reads the whole log, or only its newer deltas if a closed
// writer of this store has left its index.
func (w *Writer) OpenIndex(ctx context.Context) error {
	if w.ids != nil {
		return nil
	}
	x := w.s.takeIndex(w.book)
	err := w.updateIndex(ctx, x)
	if errors.Is(err, errOtherLog) {
		x = new(index)
		err = w.updateIndex(ctx, x)
	}
	if err != nil {
		return fmt.Errorf("index the covered ids of playbook %q: %w", w.book, err)
	}
	w.ids = x
	return nil
}

// errOtherLog is returned if an index is not of the log, for example because the log was replaced.
var errOtherLog = errors.New("the index belongs to another log")

// updateIndex adds the deltas up to the one that the writer has folded last. It returns errOtherLog if the index is not of this log.
func (w *Writer) updateIndex(ctx context.Context, x *index) error {
	indexed := x.seq
	if indexed > w.seq {
		return errOtherLog
	}
	err := w.s.readDeltas(ctx, startAt(w.book, indexed), func(r *Record) error { // begins with the last indexed delta, to compare its hash
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
	case indexed > 0 && errors.Is(err, ErrBrokenLog): // the log does not contain the last indexed delta
		return errOtherLog
	case err != nil && !errors.Is(err, errStop):
		return err
	case x.seq != w.seq || !bytes.Equal(x.chain, w.chain):
		return fmt.Errorf("the log ended at sequence %d and now ends at %d: %w", w.seq, x.seq, ErrBrokenLog)
	}
	return nil
}

// Close ends the use of the writer, and leaves its index to the next writer of the book. A writer without an index need not be closed.
func (w *Writer) Close() {
	if w.ids == nil {
		return
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.indexes[w.book], w.ids = w.ids, nil
}

// takeIndex returns the index of the last closed writer of a book, or an empty one.
func (s *Store) takeIndex(b playbook.Book) *index {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.indexes[b]
	delete(s.indexes, b)
	return cmp.Or(x, new(index))
}
