// Package natskv keeps playbooks in JetStream: a log of deltas per book, which is the truth, and a key-value bucket,
// which is its view. It alone knows how a playbook is stored.
//
// The log is the stream DELTAS, one subject per book. A delta is one message, published only if the book's last
// sequence is the one its writer has folded up to (compare-and-swap), so of two writers one wins and the other folds
// the news first. Each delta names the chain hash of the log before it; the chain hash of a log is the SHA-256 of its
// last record.
//
// Readers skip a message that is not the next delta: a stray. It cannot disable a book. Verify reports strays, and
// RemoveStrays deletes them. A delta that is missing or damaged is another thing: a later delta or the view names it, and
// the log is broken (ErrBrokenLog).
//
// The view is the bucket "playbook": a key per bullet and a head. Writers bring it up to date in atomic batches, head
// last, guarded by the head's revision. Many deltas may go in one flush. Losing the view costs time only.
//
// One id has one effect, for as long as there is the log, because each delta names the executions,
// feedback and edits that it covers, and a Writer looks up every event in an index of all of them (OpenIndex) before it
// commits. Acknowledgements, stream sequences and redelivery marks decide nothing. The index has 16 bytes per id in a file,
// or in memory without a directory, and a map of the newest ids: an eighth of all, but 16,384 to 1,048,576, some 40 bytes
// each. A million ids take 16 MB of file and up to 5 MB of memory. The file is a cache that is built again from the log.
package natskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/playbook"
	"debrief/playbook/history"
)

// ErrBrokenLog is returned when a log cannot be folded: a delta is missing or damaged, or is not the one that was read
// before.
var ErrBrokenLog = errors.New("delta log is broken")

// Store is where the books of one account live.
type Store struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	watch *denied.Watch

	// Meter is told what writers do, Followed how long ago a version was flushed that a follower has now, and Stalled why a
	// follower cannot read its view, with nil when it can again or has ended. They are set before the store is used; nil is
	// nobody.
	Meter    Meter
	Followed func(ago time.Duration)
	Stalled  func(b playbook.Book, why error)

	// IndexDir is the directory for the indexes of covered ids; empty keeps them in memory. Warn receives why a file there
	// could not be used or written; nil disables it. Both are set before the store is used.
	IndexDir string
	Warn     func(error)

	mu      sync.Mutex
	indexes map[playbook.Book]*index // of closed writers
	minTail int                      // of indexes
}

// New is the store that a connection reaches. The stream and the bucket must exist.
func New(js jetstream.JetStream) *Store {
	return &Store{nc: js.Conn(), js: js, watch: denied.Of(js), indexes: make(map[playbook.Book]*index), minTail: minTail}
}

const (
	viewStream = "KV_" + events.BucketPlaybook
	viewPrefix = "$KV." + events.BucketPlaybook + "."
)

// head is the value of a book's head key.
type head struct {
	Version uint64            `msgpack:"v"`
	Seq     uint64            `msgpack:"q"` // of the delta that made this version
	Chain   []byte            `msgpack:"x"`
	Last    uint64            `msgpack:"l"` // highest number minted
	Count   int               `msgpack:"n"`
	Sum     playbook.Checksum `msgpack:"s"`
	// From is the sequence of the first delta that a start must read: that of the head, or the first of a change that has
	// not come to its end.
	From uint64 `msgpack:"c"`
	// Partial says that the writer of a later version is at work, in more batches than one: until the next head the
	// bullets fit none. Version is still that of the last whole head, the rest is not set.
	Partial bool `msgpack:"p,omitempty"`
	// Gate is the book's, empty where nobody chose it.
	Gate playbook.Gate `msgpack:"g,omitempty"`
	// Lost is the newest version that a view had and the log lost. It stays until an operator has the view rebuilt.
	Lost *lostEnd `msgpack:"z,omitempty"`
}

// Record is one delta as the log holds it.
type Record struct {
	playbook.Delta
	Seq   uint64 // in the stream
	Chain []byte // SHA-256 of the record: the chain hash of the log up to here
	Size  int    // in bytes
}

// scan calls fn for every message of the stream that matches the subject, from a sequence on, in order.
func (s *Store) scan(ctx context.Context, stream, subject string, from uint64, fn func(direct.Message) error) error {
	err := denied.Do(ctx, s.watch, stream, func(ctx context.Context) error {
		return direct.Read(ctx, s.nc, stream, direct.Query{Subject: subject, From: from}, fn)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	return nil
}

// last is the last message on a subject, nil if there is none.
func (s *Store) last(ctx context.Context, stream, subject string) (*direct.Message, error) {
	m, err := denied.Call(ctx, s.watch, stream, func(ctx context.Context) (*direct.Message, error) {
		return direct.Last(ctx, s.nc, stream, subject)
	})
	if err != nil {
		return nil, fmt.Errorf("read last of %s: %w", subject, err)
	}
	return m, nil
}

// answerTimeout bounds the wait for the leader's answer. Past it the answer is nats.ErrTimeout, which says that the
// server is at fault, not the caller's own deadline.
const answerTimeout = 5 * time.Second

func ownTimeout(caller context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && caller.Err() == nil {
		return nats.ErrTimeout
	}
	return err
}

// Books are the books that have a view.
func (s *Store) Books(ctx context.Context) ([]playbook.Book, error) {
	var books []playbook.Book
	err := s.scan(ctx, viewStream, viewPrefix+events.HeadKey("*"), 1, func(m direct.Message) error {
		if m.Removed() {
			return nil
		}
		name := m.Subject[len(viewPrefix) : len(m.Subject)-len(events.HeadKey(""))]
		books = append(books, playbook.Book(name))
		return nil
	})
	return books, err
}

// Log calls fn for every delta of a book, in order. Strays are skipped. A log that a delta is missing from ends with
// ErrBrokenLog.
func (s *Store) Log(ctx context.Context, b playbook.Book, fn func(*Record) error) error {
	if err := b.Validate(); err != nil {
		return err
	}
	return s.deltas(ctx, &logCursor{book: b}, fn)
}

// History is the log of a book as package history reads it.
func (s *Store) History(ctx context.Context, b playbook.Book) history.Log {
	return func(fn func(*playbook.Delta) error) error {
		return s.Log(ctx, b, func(r *Record) error { return fn(&r.Delta) })
	}
}

// Since calls fn for every delta of a book that comes after another one, in order. Seq is the sequence of that one, 0 for
// all.
func (s *Store) Since(ctx context.Context, b playbook.Book, seq uint64, fn func(*Record) error) error {
	return s.deltas(ctx, startAt(b, seq), func(r *Record) error {
		if r.Seq == seq {
			return nil
		}
		return fn(r)
	})
}

// At is the playbook as it was at a version, folded from the log. Of a version that does not exist it returns a
// *VersionError.
func (s *Store) At(ctx context.Context, b playbook.Book, version uint64) (*playbook.Playbook, error) {
	f := fold{book: b}
	errDone := errors.New("done")
	err := errDone
	if version > 0 {
		err = s.deltas(ctx, &logCursor{book: b}, func(r *Record) error {
			if _, err := f.apply(r); err != nil {
				return err
			}
			if r.Version == version {
				return errDone
			}
			return nil
		})
	}
	switch {
	case errors.Is(err, errDone):
		return &f.playbook, nil
	case err != nil:
		return nil, err
	}
	return nil, &VersionError{b, version, f.playbook.Version()}
}

// VersionError says that a playbook has no such version, or not yet.
type VersionError struct {
	Book            playbook.Book
	Version, Newest uint64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("playbook %q has no version %d: its newest is %d", e.Book, e.Version, e.Newest)
}

// NotFound marks it as about something that is not here.
func (e *VersionError) NotFound() bool { return true }

// Logged are the books that have a log.
func (s *Store) Logged(ctx context.Context) ([]playbook.Book, error) {
	stream, err := s.js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	info, err := denied.Call(ctx, s.watch, events.StreamDeltas, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithSubjectFilter(events.KindDelta.Subject("")))
	})
	if err != nil {
		return nil, fmt.Errorf("list books: %w", err)
	}
	var books []playbook.Book
	for subject := range info.State.Subjects {
		if _, b, err := events.ParseSubject(subject); err == nil {
			books = append(books, b)
		}
	}
	slices.Sort(books)
	return books, nil
}

// Known are the books that have a log or a view: a view without a log is one that lost it.
func (s *Store) Known(ctx context.Context) ([]playbook.Book, error) {
	logged, err := s.Logged(ctx)
	if err != nil {
		return nil, err
	}
	viewed, err := s.Books(ctx)
	all := slices.Concat(logged, viewed)
	slices.Sort(all)
	return slices.Compact(all), err
}
