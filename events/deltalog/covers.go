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

// index is the set of keys of all events that a book's log covers, up to a delta. A key is as wide as an event's id, so the index is
// exact. A million ids take about 30 MB.
type index map[playbook.CoverKey]struct{}

// add indexes the covers of the next delta of the log.
func (x index) add(r *Record) {
	for i := range r.Covers {
		c := &r.Covers[i]
		x[c.Key()] = struct{}{}
		if c.Evidence != nil && c.Evidence.FeedbackSeq > 0 {
			x[playbook.FeedbackKey(c.Evidence.Sample)] = struct{}{}
		}
	}
}

func (x index) has(key playbook.CoverKey) bool {
	_, ok := x[key]
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

// OpenIndex reads the whole log into the index of all ids that it covers, and keeps the index current.
func (w *Writer) OpenIndex(ctx context.Context) error {
	if w.ids != nil {
		return nil
	}
	ids, last := index{}, new(Record)
	err := w.s.readDeltas(ctx, &logCursor{book: w.book}, func(r *Record) error {
		if r.Seq > w.seq { // another writer has stored it after the last fold
			return errStop
		}
		ids.add(r)
		if w.seq-r.Seq >= maxRecentSeqs {
			w.recentFrom = r.Seq
		}
		last = r
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil && (last.Seq != w.seq || !bytes.Equal(last.Chain, w.chain)) {
		err = fmt.Errorf("the log ended at sequence %d and now ends at %d: %w", w.seq, last.Seq, ErrBrokenLog)
	}
	if err != nil {
		return fmt.Errorf("index the covered ids of playbook %q: %w", w.book, err)
	}
	w.ids = ids
	return nil
}
