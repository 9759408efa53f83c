package deltalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Log calls a function for each delta of a log, or of a part of it, in order, until the function returns an error. It returns
// that error.
type Log func(func(*Record) error) error

// History returns the log in the form that package history reads.
func (l Log) History() history.Log {
	return func(fn func(*playbook.Delta) error) error {
		return l(func(r *Record) error { return fn(&r.Delta) })
	}
}

// Log returns the log of a book.
func (s *Store) Log(ctx context.Context, b playbook.Book) Log {
	return func(fn func(*Record) error) error { return s.ReadLog(ctx, b, fn) }
}

// Reader reads the log of a book from its beginning, and then the new deltas. It is for one goroutine.
type Reader struct {
	s   *Store
	log *logCursor
}

// Reader returns a reader at the beginning of the log of a book. It sends no request.
func (s *Store) Reader(b playbook.Book) *Reader { return &Reader{s, &logCursor{book: b}} }

// Read calls fn for each delta that was not read before, in order. Without new deltas it costs one request. It returns ErrBrokenLog
// if the log no longer contains the delta that was read last. A new Reader then reads the remaining log.
func (r *Reader) Read(ctx context.Context, fn func(*Record) error) error {
	_, err := r.s.readNew(ctx, r.log, fn)
	return err
}

// EndBefore returns the sequence of the last message of the logs of a book that began before a time, 0 if none is stored. isNew reports
// whether the book has a later log. An erasure of the book ends a log: the first delta after it links to no other.
func (s *Store) EndBefore(ctx context.Context, b playbook.Book, before time.Time) (end uint64, isNew bool, err error) {
	err = s.scanLog(ctx, b, 1, func(m *candidate) error {
		began := m.stored
		if m.Redaction != nil { // it was stored later than its delta
			began = m.Time
		}
		isFirst := m.err == nil && m.PrevSeq == 0
		if isFirst && !began.Before(before) {
			isNew = true
			return errStop
		}
		end = m.Seq
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return end, isNew, err
}

// readNew moves a cursor to the end of the log and calls fn for each new delta. It reports whether there were messages after the cursor, also
// strays: messages that are not deltas of the log. It returns ErrBrokenLog if the log no longer contains the delta that was read last.
func (s *Store) readNew(ctx context.Context, c *logCursor, fn func(*Record) error) (hasNew bool, err error) {
	m, err := s.last(ctx, events.StreamDeltas, events.KindDelta.Subject(c.book))
	if err != nil {
		return false, err
	}
	if m != nil && m.Seq > c.end {
		return true, s.readDeltas(ctx, c, fn)
	}
	if c.isLastRead(m) {
		return false, nil
	}
	// The log lost its end, strays were removed, or the replica that answered lags. Only the leader has the real end.
	last, err := s.leaderDelta(ctx, map[string]any{"last_by_subj": events.KindDelta.Subject(c.book)})
	if err != nil {
		return false, err
	}
	m = nil // the message of the replica
	if last != nil {
		m = &direct.Message{Subject: last.Subject, Seq: last.Seq, Data: last.Data}
	}
	lags := c.isLastRead(m) || m != nil && m.Seq > c.end // the replica: a later call reads the rest
	if lags || c.rewind(m) {                             // rewind: only strays were removed
		return false, nil
	}
	return false, c.lostDeltaError()
}

// isLastRead reports whether m is the message that was read last; nil means that the subject is empty. The hash counts, too, because
// a server that lost the end of its log assigns the same sequences again.
func (c *logCursor) isLastRead(m *direct.Message) bool {
	if m == nil {
		return c.end == 0
	}
	sum := sha256.Sum256(m.Data)
	return m.Seq == c.end && bytes.Equal(sum[:], c.endHash)
}

// Position identifies a delta that was read: its sequence, and the hash of its record.
type Position struct {
	Seq   uint64
	Chain [sha256.Size]byte
}

// Records calls fn for the deltas of a book at known positions, in this order. Records returns ErrBrokenLog if the log no longer contains
// one of the positions.
func (s *Store) Records(ctx context.Context, b playbook.Book, positions []Position, fn func(*Record) error) error {
	for _, p := range positions {
		r, err := s.getRecord(ctx, b, p)
		if err == nil {
			err = fn(r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) getRecord(ctx context.Context, b playbook.Book, p Position) (*Record, error) {
	m, err := s.direct.Get(ctx, events.StreamDeltas, p.Seq)
	if err != nil {
		return nil, fmt.Errorf("read sequence %d of %s: %w", p.Seq, events.StreamDeltas, err)
	}
	if m != nil && m.Subject == events.KindDelta.Subject(b) {
		if c := newCandidate(*m); c.err == nil && bytes.Equal(c.Chain, p.Chain[:]) {
			return c.Record, nil
		}
	}
	r, err := s.redactionOf(ctx, b, p.Seq)
	if err != nil {
		return nil, err
	}
	if r != nil && bytes.Equal(r.Chain, p.Chain[:]) {
		return r.Record, nil
	}
	return nil, fmt.Errorf("playbook %q: the log no longer contains the delta at sequence %d: %w", b, p.Seq, ErrBrokenLog)
}

// maxRecentSeqs is the distance from the end of a log at which RecentDeltas begins to read.
const maxRecentSeqs = 1000

// RecentDeltas calls fn in order for the folded deltas of the book that are among the last n sequences of the stream, n up to 1,000. There are
// fewer than n if other books share the stream. If the index is open, it reads only the end of the log.
func (w *Writer) RecentDeltas(ctx context.Context, n uint64, fn func(*playbook.Delta)) error {
	from := uint64(0)
	if w.ids != nil {
		from = w.ids.marks[0]
	}
	err := w.s.readDeltas(ctx, startAt(w.book, from), func(r *Record) error {
		if r.Seq > w.seq {
			return errStop
		}
		if w.seq-r.Seq < n {
			fn(&r.Delta)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return fmt.Errorf("read the end of the log of playbook %q: %w", w.book, err)
	}
	return nil
}
