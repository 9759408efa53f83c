package deltalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// A redaction takes the place of a delta whose texts were erased, see the comment of the package. Erasing has three steps: Redact stores
// the redactions, an edit lists them in the log, and RemoveRedacted overwrites the deltas. Each step may be repeated, and the whole may
// end after any of them.

// storedRedaction is a message of the stream of redactions.
type storedRedaction struct {
	*candidate
	msgSeq uint64 // sequence of the message in the stream of redactions
	sum    []byte // SHA-256 of its payload
}

// newStoredRedaction decodes a redaction. The error of the candidate is set if it cannot be decoded, or if it is on the subject of another
// delta.
func newStoredRedaction(b playbook.Book, m direct.Message) *storedRedaction {
	sum := sha256.Sum256(m.Data)
	stored := &storedRedaction{candidate: &candidate{Record: &Record{Size: len(m.Data)}, stored: m.Stored()}, msgSeq: m.Seq, sum: sum[:]}
	stored.err = events.CheckSchema(m.Header)
	if stored.err != nil {
		return stored
	}
	stored.hasSchema = true
	r, err := events.DecodeRedaction(m.Data)
	if err == nil && m.Subject != events.RedactionSubject(b, r.Seq) {
		err = fmt.Errorf("decode redaction of sequence %d: it is on subject %s", r.Seq, m.Subject)
	}
	if err != nil {
		stored.err = err
		return stored
	}
	stored.Record.Delta, stored.Record.Seq, stored.Record.Chain = r.Delta, r.Seq, r.Chain
	stored.Record.Redaction = stored.sum
	return stored
}

// readRedactions returns the redactions of a book in the order in which they were stored, also the redactions that a newer one replaces.
func (s *Store) readRedactions(ctx context.Context, b playbook.Book) (all []*storedRedaction, err error) {
	q := direct.Query{Subject: events.RedactionSubject(b, 0)}
	err = s.direct.Read(ctx, events.StreamRedactions, q, func(m direct.Message) error {
		all = append(all, newStoredRedaction(b, m))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", q.Subject, err)
	}
	return all, nil
}

// newest returns the newest readable redaction of each delta, by the sequence of the delta.
func newest(all []*storedRedaction) map[uint64]*storedRedaction {
	bySeq := make(map[uint64]*storedRedaction)
	for _, r := range all {
		if r.err == nil {
			bySeq[r.Seq] = r
		}
	}
	return bySeq
}

// redactionOf returns the redaction of the delta with a sequence, or nil.
func (s *Store) redactionOf(ctx context.Context, b playbook.Book, seq uint64) (*storedRedaction, error) {
	m, err := s.last(ctx, events.StreamRedactions, events.RedactionSubject(b, seq))
	if err != nil || m == nil {
		return nil, err
	}
	r := newStoredRedaction(b, *m)
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// hasDelta reports whether the log has the delta with a sequence and a chain hash, or its redaction.
func (s *Store) hasDelta(ctx context.Context, b playbook.Book, seq uint64, chain []byte) (bool, error) {
	m, err := s.leaderDelta(ctx, map[string]any{"seq": seq})
	switch {
	case err != nil:
		return false, err
	case m.matches(b, chain): // a nil m does not match
		return true, nil
	case m != nil: // another message
		return false, nil
	}
	r, err := s.redactionOf(ctx, b, seq)
	return r != nil && bytes.Equal(r.Chain, chain), err
}

// overlay puts the redactions of a log in the place of the deltas. A reader of the whole log loads the redactions at its first message, and a
// reader of a part at the first message that does not link to the message before it. Each redaction is stored before its delta is removed:
// if deltas are removed during the read, the log has a gap, and readDeltas reads again.
type overlay struct {
	s    *Store
	book playbook.Book
	from uint64 // sequence at which the reader began

	last  uint64                      // sequence of the last message
	bySeq map[uint64]*storedRedaction // the newest of each delta that was not passed yet; nil until they are loaded
}

// next returns the messages up to and including m: the redactions of the deltas that are missing before it, and m itself or its redaction.
func (o *overlay) next(ctx context.Context, m *candidate) ([]*candidate, error) {
	isFirst := m.PrevSeq < o.from // the delta before m is not read
	linksToLast := m.err == nil && (isFirst || m.PrevSeq == o.last)
	if o.bySeq == nil && (o.from <= 1 || !linksToLast) {
		all, err := o.s.readRedactions(ctx, o.book)
		if err != nil {
			return nil, err
		}
		o.bySeq = newest(all)
	}
	o.last = m.Seq
	if r := o.bySeq[m.Seq]; r != nil && bytes.Equal(r.Chain, m.Chain) {
		r.originalStored = true
		m = r.candidate
	}
	delete(o.bySeq, m.Seq)
	all := []*candidate{m} // newest first
	for m.err == nil && m.PrevSeq >= o.from {
		r := o.bySeq[m.PrevSeq]
		if r == nil { // the delta before m was read
			break
		}
		delete(o.bySeq, r.Seq)
		m = r.candidate
		all = append(all, m)
	}
	slices.Reverse(all)
	return all, nil
}

// Redact calls redact for each delta of a book, and stores a redaction of each delta that it changes. A delta that was redacted before is
// passed in its redacted form, and a newer redaction takes the place of the older one. The versions and links of a delta must not change,
// nor a part of it that the state of the playbook depends on.
//
// Redact stores the redactions of later deltas first. Their texts come from earlier deltas, so after an interruption the earlier ones still
// say which texts must be erased. Until then it keeps the redactions in memory. It returns the versions that no delta lists yet, so a call
// after an interruption returns them too. The caller sends an edit that lists them (events.Edit, Redact) and then calls RemoveRedacted.
func (s *Store) Redact(ctx context.Context, b playbook.Book, redact func(*playbook.Delta) (changed bool)) ([]playbook.RedactedVersion, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	stored, err := s.readRedactions(ctx, b)
	if err != nil {
		return nil, err
	}
	x := &redactor{s: s, book: b, redact: redact, known: newest(stored), listed: listings{}}
	if err := s.ReadLog(ctx, b, x.read); err != nil {
		return nil, fmt.Errorf("redact playbook %q: %w", b, err)
	}
	for _, r := range slices.Backward(x.changed) {
		if err := x.store(ctx, r); err != nil {
			return nil, fmt.Errorf("redact version %d of playbook %q: %w", r.Delta.Version, b, err)
		}
	}
	var missing []playbook.RedactedVersion
	for _, seq := range slices.Sorted(maps.Keys(x.known)) {
		if v := x.known[seq].version(); !x.listed.has(v) {
			missing = append(missing, v)
		}
	}
	return missing, nil
}

// redactor stores the redactions of a book.
type redactor struct {
	s       *Store
	book    playbook.Book
	redact  func(*playbook.Delta) bool
	known   map[uint64]*storedRedaction // the newest of each delta
	listed  listings
	changed []*events.Redaction // not stored yet
}

// read redacts the next delta of the log.
func (x *redactor) read(r *Record) error {
	x.listed.add(r)
	if x.redact(&r.Delta) {
		x.changed = append(x.changed, &events.Redaction{Seq: r.Seq, Chain: r.Chain, Delta: r.Delta})
	}
	return nil
}

// store stores a redaction. If another erasure has stored a redaction of the same delta meanwhile, store redacts that redaction.
func (x *redactor) store(ctx context.Context, r *events.Redaction) error {
	for try := range commitTries {
		data, err := events.EncodeRedaction(r)
		if err != nil {
			return err
		}
		after := uint64(0)
		if known := x.known[r.Seq]; known != nil {
			after = known.msgSeq
		}
		msg := &nats.Msg{Subject: events.RedactionSubject(x.book, r.Seq), Data: data, Header: nats.Header(events.SchemaHeader())}
		ack, err := x.s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(after))
		if err == nil {
			x.known[r.Seq] = newStoredRedaction(x.book, direct.Message{Subject: msg.Subject, Seq: ack.Sequence, Header: msg.Header, Data: data})
			return nil
		}
		if ctx.Err() != nil || isRefusal(err) && !natserr.IsConflict(err) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
		known, err := x.s.redactionOf(ctx, x.book, r.Seq) // of another erasure, or this one was stored without an answer
		if err != nil {
			return err
		}
		if known == nil {
			continue
		}
		x.known[r.Seq] = known
		r.Delta = known.Delta
		if !x.redact(&r.Delta) {
			return nil
		}
	}
	return &contendedError{x.book}
}

// version returns the entry of a list for the redaction.
func (r *storedRedaction) version() playbook.RedactedVersion {
	v := playbook.RedactedVersion{Version: r.Version, Sum: r.sum}
	if r.Forget != nil {
		v.ErasedSelector = r.Forget.Erased
	}
	return v
}

// listings has the newest list of each redacted version.
type listings map[uint64]listing

type listing struct {
	sum []byte
	by  *Record // the delta that has the list, without its operations and covers
}

// add records the lists of the next delta of a log.
func (l listings) add(r *Record) {
	if len(r.Redacted) == 0 {
		return
	}
	by := &Record{Delta: playbook.Delta{Version: r.Version, Author: r.Author, Time: r.Time}, Seq: r.Seq, Chain: r.Chain}
	for _, v := range r.Redacted {
		l[v.Version] = listing{v.Sum, by}
	}
}

// has reports whether the newest list of a version has the hash.
func (l listings) has(v playbook.RedactedVersion) bool { return bytes.Equal(l[v.Version].sum, v.Sum) }

// RemoveRedacted overwrites each delta whose redaction is listed in the log, and each redaction that a listed one replaces. It returns
// the number of messages that it removed. It needs the right to delete messages of DELTAS and REDACTIONS. A store with encryption at rest
// deletes them without overwriting.
func (s *Store) RemoveRedacted(ctx context.Context, b playbook.Book) (removed int, err error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	stored, err := s.readRedactions(ctx, b)
	if err != nil || len(stored) == 0 {
		return 0, err
	}
	listed := listings{}
	err = s.ReadLog(ctx, b, func(r *Record) error { listed.add(r); return nil })
	if err != nil {
		return 0, fmt.Errorf("remove redacted deltas of playbook %q: %w", b, err)
	}
	current := newest(stored)
	for _, r := range stored { // in the order in which they were stored, so the older redactions of a delta go before the delta
		if r.err != nil || !listed.has(current[r.Seq].version()) {
			continue
		}
		var overwritten bool
		if r == current[r.Seq] {
			overwritten, err = s.overwriteDelta(ctx, b, r)
		} else {
			overwritten, err = s.overwrite(ctx, events.StreamRedactions, r.msgSeq)
		}
		if err != nil {
			return removed, fmt.Errorf("remove redacted version %d of playbook %q: %w", r.Version, b, err)
		}
		if overwritten {
			removed++
		}
	}
	return removed, nil
}

// overwriteDelta overwrites the delta that a redaction replaces. It reports false if the delta no longer exists.
func (s *Store) overwriteDelta(ctx context.Context, b playbook.Book, r *storedRedaction) (bool, error) {
	m, err := s.leaderDelta(ctx, map[string]any{"seq": r.Seq})
	if err != nil || !m.matches(b, r.Chain) { // m is nil if the delta is gone
		return false, err
	}
	return s.overwrite(ctx, events.StreamDeltas, r.Seq)
}

// overwrite overwrites a message of a stream. It reports false if the message does not exist.
func (s *Store) overwrite(ctx context.Context, name string, seq uint64) (bool, error) {
	stream, err := s.js.Stream(ctx, name)
	if err != nil {
		return false, fmt.Errorf("open stream %s: %w", name, err)
	}
	return natserr.Call(ctx, s.watch, name, func(ctx context.Context) (bool, error) { return direct.Overwrite(ctx, stream, seq) })
}

// RewriteView removes the bytes of earlier values from the files of the view of all books: the text of a removed bullet remains in a file
// until then. It needs the rights of the Curator. Rebuild the view of a redacted book first.
func (s *Store) RewriteView(ctx context.Context) error {
	if _, err := direct.Rewrite(ctx, s.js, viewStream); err != nil {
		return fmt.Errorf("remove earlier values from the view: %w", err)
	}
	return nil
}
