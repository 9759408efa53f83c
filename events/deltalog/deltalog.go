// Package deltalog stores playbooks in JetStream: one log of deltas per book, and a key-value bucket with the current
// bullets, the view. The log is the source of truth. Other packages access stored playbooks only through this one.
//
// The log is the stream DELTAS with one subject per book. A delta is one message. A writer publishes it with
// compare-and-swap: the last sequence on the subject must be the one that the writer has folded. If two writers race,
// one succeeds and the other folds the new delta first. Each delta contains the chain hash of the log before it. The
// chain hash of a log is the SHA-256 of its last record.
//
// Readers skip a message that is not the next delta: a stray. It cannot disable a book. Verify reports strays. If a delta is
// missing or damaged, the log is broken (ErrBrokenLog): a later delta or the view refers to that delta.
//
// The log is kept for ever, so the texts of a person are erased from it on request. A redaction takes the place of a delta: a message of
// the stream REDACTIONS with the delta without these texts, and with the sequence and the hash of the delta as it was written. The links
// of later deltas and the positions that others keep stay valid. The subject of a redaction has the sequence of its delta, because all that
// refers to a delta knows its sequence. The delta is deleted, and the server overwrites its bytes. JetStream cannot store another
// message at the same sequence, so redactions are in a stream of their own. A later delta lists the hash of each redaction, so the chain
// covers its present form; Verify compares both. Redactor in package history decides which texts go. See redaction.go for the steps.
//
// The texts are not in a stream of their own, with salted hashes in the chain, because every commit and every reader would then handle two
// streams. They are not encrypted with a key for each person, because each reader and backup would need all keys. A redaction costs a commit
// nothing, and a reader of the whole log one request.
//
// The view is the bucket "playbook": a key per bullet and a head. The head also contains the bullets that changed since the keys were
// written. A head and the keys before it in the stream are a complete view: readers apply both in the order of the stream. Most
// flushes publish the head alone, as one message. When the changed bullets pass a number of bytes, a flush writes their keys as well, in an
// atomic batch with the head last. Batches are rare, because the server creates and syncs a file for each one. Every head is written with
// compare-and-swap on its revision. One flush may contain many deltas. A lost view is rebuilt from the log.
//
// Each event has exactly one effect while the log exists. A delta lists the ids of the executions, feedback and edits
// that it covers. A Writer looks up every event in an index of all covered ids (OpenIndex) before it commits. This does
// not depend on acknowledgements, stream sequences or redelivery marks. The compare-and-swap guarantees that no event is covered in between.
package deltalog

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
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
	"debrief/playbook/history"
)

// ErrBrokenLog is returned when a log cannot be folded: a delta is missing or damaged, or differs from the delta that
// was read earlier.
var ErrBrokenLog = errors.New("delta log is broken")

// Store reads and writes the playbooks of one NATS account. It is safe for concurrent use.
type Store struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	watch  *natserr.Watch
	direct *direct.Reader

	// The following fields must be set before the first call of a method. A nil function or Meter disables the report.

	// Meter receives the metrics of all writers.
	Meter Meter
	// OnFollowerDelay receives the time from the flush of a version until a follower has it.
	OnFollowerDelay func(ago time.Duration)
	// OnStalled receives the error if a follower cannot read its view. It receives nil if the follower can read again or has
	// stopped.
	OnStalled func(b playbook.Book, reason error)

	maxRecent int // the constant; tests set another value

	mu      sync.Mutex
	indexes map[playbook.Book]*index // of closed writers; guarded by mu
}

// New returns the store of a connection. The stream DELTAS and the bucket must exist.
func New(js jetstream.JetStream) *Store {
	nc, watch := js.Conn(), natserr.WatchOf(js)
	return &Store{nc: nc, js: js, watch: watch, direct: direct.NewReader(nc, watch), maxRecent: maxRecent, indexes: make(map[playbook.Book]*index)}
}

// Load returns the newest version of a book, or an empty playbook if the book does not exist. Store.PlaybookAt returns an older one, and a
// Follower has each later one. Load reads to the end of the log, so it contains every edit whose reply has arrived, unless a replica
// of a cluster lags. Conn is a *bus.Conn. Load returns natserr.ErrNoStreams if the server has no streams of Debrief.
func Load(ctx context.Context, conn interface{ JetStream() jetstream.JetStream }, b playbook.Book) (*playbook.Playbook, error) {
	w, err := New(conn.JetStream()).Writer(ctx, b)
	if natserr.IsStreamMissing(ctx, conn.JetStream(), viewStream, err) {
		return nil, fmt.Errorf("open playbook %q: %w", b, natserr.ErrNoStreams)
	}
	if err != nil {
		return nil, err
	}
	return w.State().Playbook(), nil
}

// Record is one stored delta of a log.
type Record struct {
	playbook.Delta
	Seq   uint64 // in the stream
	Chain []byte // SHA-256 of the record: the chain hash of the log up to and including it
	Size  int    // in bytes
	// Redaction is the SHA-256 of the redaction in place of the delta, whose texts were erased. It is nil for a delta as it was written.
	Redaction []byte

	originalStored bool // of a redaction: the delta as it was written is still stored
}

// scanView calls fn in order for every message of the view on a subject, starting at a sequence.
func (s *Store) scanView(ctx context.Context, subject string, from uint64, fn func(direct.Message) error) error {
	if err := s.direct.Read(ctx, viewStream, direct.Query{Subject: subject, From: from}, fn); err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	return nil
}

// last returns the last message on a subject, or nil if the subject is empty.
func (s *Store) last(ctx context.Context, stream, subject string) (*direct.Message, error) {
	m, err := s.direct.Last(ctx, stream, subject)
	if err != nil {
		return nil, fmt.Errorf("read last of %s: %w", subject, err)
	}
	return m, nil
}

// BooksWithView lists the books that have a view.
func (s *Store) BooksWithView(ctx context.Context) ([]playbook.Book, error) {
	var books []playbook.Book
	err := s.scanView(ctx, viewPrefix+events.HeadKey("*"), 1, func(m direct.Message) error {
		if m.Deleted() {
			return nil
		}
		name := m.Subject[len(viewPrefix) : len(m.Subject)-len(events.HeadKey(""))]
		books = append(books, playbook.Book(name))
		return nil
	})
	return books, err
}

// ReadLog calls fn for every delta of a book, in order. It skips strays. It returns ErrBrokenLog if a delta is missing or
// damaged.
func (s *Store) ReadLog(ctx context.Context, b playbook.Book, fn func(*Record) error) error {
	if err := b.Validate(); err != nil {
		return err
	}
	return s.readDeltas(ctx, &logCursor{book: b}, fn)
}

// History returns the log of a book in the form that package history reads.
func (s *Store) History(ctx context.Context, b playbook.Book) history.Log {
	return s.Log(ctx, b).History()
}

// DeltasAfter calls fn in order for every delta of a book after the delta with sequence seq; 0 means all.
func (s *Store) DeltasAfter(ctx context.Context, b playbook.Book, seq uint64, fn func(*Record) error) error {
	return s.readDeltas(ctx, startAt(b, seq), func(r *Record) error {
		if r.Seq == seq {
			return nil
		}
		return fn(r)
	})
}

// PlaybookAt folds the log up to a version and returns the playbook. If the version does not exist it returns a *VersionError.
func (s *Store) PlaybookAt(ctx context.Context, b playbook.Book, version uint64) (*playbook.Playbook, error) {
	f := fold{book: b}
	if version == 0 {
		return &f.playbook, nil
	}
	err := s.readDeltas(ctx, &logCursor{book: b}, func(r *Record) error {
		if _, err := f.apply(r); err != nil {
			return err
		}
		if r.Version == version {
			return errStop
		}
		return nil
	})
	switch {
	case errors.Is(err, errStop):
		return &f.playbook, nil
	case err != nil:
		return nil, err
	}
	return nil, &VersionError{Book: b, Version: version, Newest: f.playbook.Version()}
}

// VersionError is returned if a version of a playbook does not exist, or not yet.
type VersionError struct {
	Book            playbook.Book
	Version, Newest uint64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("playbook %q has no version %d: its newest is %d", e.Book, e.Version, e.Newest)
}

// NotFound marks the error as "not found".
func (e *VersionError) NotFound() bool { return true }

// BooksWithLog lists the books that have a log.
func (s *Store) BooksWithLog(ctx context.Context) ([]playbook.Book, error) {
	stream, err := s.js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	info, err := natserr.Call(ctx, s.watch, events.StreamDeltas, func(ctx context.Context) (*jetstream.StreamInfo, error) {
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

// BooksSince lists the books with deltas from a sequence of the stream on, each once.
func (s *Store) BooksSince(ctx context.Context, seq uint64) (books []playbook.Book, err error) {
	err = s.direct.Read(ctx, events.StreamDeltas, direct.Query{Subject: events.KindDelta.Subject(""), From: seq}, func(m direct.Message) error {
		if _, b, err := events.ParseSubject(m.Subject); err == nil && !slices.Contains(books, b) {
			books = append(books, b)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list books with new deltas: %w", err)
	}
	return books, nil
}

// AllBooks lists the books that have a log or a view. A view without a log means that the log was lost.
func (s *Store) AllBooks(ctx context.Context) ([]playbook.Book, error) {
	logged, err := s.BooksWithLog(ctx)
	if err != nil {
		return nil, err
	}
	viewed, err := s.BooksWithView(ctx)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(logged, viewed)
	slices.Sort(all)
	return slices.Compact(all), nil
}
