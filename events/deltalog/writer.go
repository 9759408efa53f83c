package deltalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// State is the newest fold of the log, on which a new delta is based. The caller must not keep or change it.
type State struct {
	f   *fold
	ids *index // nil until OpenIndex
}

// Playbook returns the folded playbook.
func (s State) Playbook() *playbook.Playbook { return &s.f.playbook }

// Chain returns the chain hash of the log.
func (s State) Chain() []byte { return s.f.chain }

// Floor returns the highest floor recorded in the log: every message of REFLECTIONS up to this sequence was
// acknowledged.
func (s State) Floor() uint64 { return s.f.floor }

// Writer commits deltas to one book and updates its view. It is for one goroutine; writers in other processes may
// write to the same book.
type Writer struct {
	s *Store
	fold
	log *logCursor // at the delta that was folded last
	ids *index     // of the covered ids; nil until OpenIndex

	// dirty maps the bullets that changed after keysVersion to the version of their last change.
	dirty       map[playbook.BulletID]uint64
	viewVersion uint64 // version of the head in the bucket
	headRev     uint64 // revision of the head's key, 0 if it was never written
	keysVersion uint64 // all bullets that changed up to this version are in the keys
	// needsRepair is set if the view may contradict the log. The next flush then compares them and writes the differences.
	needsRepair bool
	// strayKeys are the keys of the view that belong to no bullet.
	strayKeys []string
	lost      *lostVersion // the loss that the head records; nil if none
	// contended is above 0 while Commit reads the end of the log first. Each read without a delta of another writer decrements it.
	contended  int
	reconnects uint64 // of the connection, at the last commit
}

// contendedReads is the number of consecutive reads without a new delta after which Commit no longer reads first.
// With several writers on one book most commits conflict unless they read right before the compare-and-swap. For a
// single writer that read is half of the cost of a commit. A missed delta costs a conflict and a second build.
const contendedReads = 10

// Writer opens a book for writing. It reads the view and folds the newer deltas of the log. If view and log disagree
// it folds the whole log. It writes nothing; the first Flush repairs the view.
func (s *Store) Writer(ctx context.Context, b playbook.Book) (*Writer, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	w := &Writer{s: s, fold: fold{book: b}, log: &logCursor{book: b}, dirty: make(map[playbook.BulletID]uint64)}
	if err := w.open(ctx); err != nil {
		return nil, fmt.Errorf("open playbook %q: %w", b, err)
	}
	return w, nil
}

// State returns the newest state that the writer has folded.
func (w *Writer) State() State { return State{&w.fold, w.ids} }

// Refresh folds the new deltas of other writers. After ErrBrokenLog, for example because the server has lost the end of the log, a
// new Writer folds the remaining log.
func (w *Writer) Refresh(ctx context.Context) error {
	if err := w.catchUp(ctx); err != nil {
		return fmt.Errorf("read playbook %q: %w", w.book, err)
	}
	return nil
}

// ViewLag returns the number of versions that the view is behind the writer's state.
func (w *Writer) ViewLag() uint64 {
	return w.playbook.Version() - min(w.viewVersion, w.playbook.Version())
}

func (w *Writer) open(ctx context.Context) error {
	v, err := w.s.readView(ctx, w.book)
	if err != nil {
		return err
	}
	w.headRev = v.headRev
	ok, err := w.resume(ctx, v)
	if err != nil {
		return err
	}
	if ok {
		w.setView(&v.head, v.headRev)
		w.lost = v.head.Lost
		return w.catchUp(ctx)
	}
	w.needsRepair = true // the view is damaged, partial, ahead of the log or of another log
	w.lost, err = w.s.findLost(ctx, w.book, &v.head)
	if err != nil {
		return err
	}
	return w.catchUp(ctx)
}

// resume starts the fold from a view. It reports false, and changes nothing, if the bullets of the view do not match its head, or if the
// log does not contain the delta of the head.
func (w *Writer) resume(ctx context.Context, v *view) (bool, error) {
	if v.head.Version == 0 { // without any key the view is new, and the fold starts at the beginning of the log
		return len(v.values) == 0, nil
	}
	restored := v.playbook()
	if restored == nil {
		return false, nil
	}
	isAtHead := false
	f := fold{book: w.book, playbook: *restored}
	// If the head is in the middle of a change of several deltas, From is the first of these. The playbook of the view includes them, but
	// ResumeChange needs them to know the change.
	log := startAt(w.book, min(v.head.From, v.head.Seq))
	err := w.s.scanLog(ctx, w.book, log.anchor, func(m *candidate) error {
		if m.Seq > v.head.Seq {
			return errStop
		}
		isNext, err := log.advance(m)
		if err != nil || !isNext {
			return err
		}
		f.playbook.ResumeChange(&m.Delta)
		f.setPosition(m.Record)
		isAtHead = m.Seq == v.head.Seq && m.Version == v.head.Version && bytes.Equal(m.Chain, v.head.Chain)
		return nil
	})
	if err != nil && !errors.Is(err, errStop) && !errors.Is(err, ErrBrokenLog) {
		return false, err
	}
	if isAtHead {
		w.fold, w.log = f, log
	}
	return isAtHead, nil
}

// Rebuild discards the writer's state and folds the log from its beginning. The next Flush compares every key of the
// view with the log and clears a recorded loss.
func (w *Writer) Rebuild(ctx context.Context) error {
	w.fold = fold{book: w.book}
	w.log = &logCursor{book: w.book}
	if w.ids != nil {
		*w.ids = index{}
	}
	w.viewVersion, w.keysVersion, w.lost = 0, 0, nil
	w.needsRepair = true
	clear(w.dirty)
	if err := w.catchUp(ctx); err != nil {
		return fmt.Errorf("rebuild playbook %q: %w", w.book, err)
	}
	return nil
}

// catchUp folds the new deltas of other writers. It returns ErrBrokenLog if the log no longer contains the delta that
// was folded last, for example after a power loss. A new Writer then folds the remaining log.
func (w *Writer) catchUp(ctx context.Context) error {
	hasNew, err := w.s.readNew(ctx, w.log, w.applyRecord)
	switch {
	case hasNew:
		w.contended = contendedReads
	case err == nil:
		w.contended = max(w.contended-1, 0)
	}
	return err
}

// applyRecord folds one stored record, marks the changed bullets and indexes the covered ids.
func (w *Writer) applyRecord(r *Record) error {
	changed, err := w.apply(r)
	if err != nil {
		return err
	}
	if w.ids != nil {
		w.ids.add(r)
	}
	for _, id := range changed {
		w.dirty[id] = r.Version
	}
	return nil
}

// commitTries is the maximum number of attempts of one commit. With three writers on one book 3 to 5 of 100 commits
// conflict once, so 20 conflicts in a row have another cause.
const commitTries = 20

// Commit publishes one change: a delta, or several that take effect together. The function build creates it from the newest state:
// operations, covers, floor, author and reason. Commit sets the versions and the links to the delta before. On a
// conflict with another writer build runs again on the newer state, so it must be cheap and must not call a model. If
// build returns no deltas, Commit returns none and no error.
//
// If Commit returns no error, the change is stored. If it returns an error, the change may still be stored: the next
// attempt then finds its events covered.
func (w *Writer) Commit(ctx context.Context, build func(State) ([]*playbook.Delta, error)) ([]*playbook.Delta, error) {
	began := time.Now()
	reconnects := w.s.nc.Stats().Reconnects
	if reconnects != w.reconnects { // the server may be another one, or may have lost data
		w.reconnects = reconnects
		w.contended = contendedReads
	}
	for try := range commitTries {
		readFirst := w.contended > 0
		if readFirst {
			if err := w.catchUp(ctx); err != nil {
				return nil, err
			}
		}
		change, err := build(w.State())
		if err != nil || len(change) == 0 {
			if !readFirst { // an older state may be the cause: build again on the newest
				w.contended = 1
				continue
			}
			return nil, err
		}
		stored, err := w.publishAll(ctx, change)
		if err != nil {
			return nil, err
		}
		if stored {
			if m := w.s.Meter; m != nil {
				m.Committed(time.Since(began))
			}
			return change, nil
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
	return nil, &contendedError{w.book}
}

// contendedError is returned when every attempt of a commit failed its compare-and-swap. Possible causes are other
// writers, a replica that lags, or writes that the stream's leader cannot get confirmed by its followers. The delta
// itself is valid, and a later attempt succeeds when the servers agree again.
type contendedError struct{ book playbook.Book }

func (e *contendedError) Error() string {
	return fmt.Sprintf("commit to playbook %q: %d conflicts in a row", e.book, commitTries)
}

// Unavailable marks the error as a temporary outage: the caller keeps its messages and retries later.
func (e *contendedError) Unavailable() bool { return true }

// publishAll stores the deltas of one change one after another. It reports false if another writer committed before
// or between them. The deltas stored so far then never take effect.
func (w *Writer) publishAll(ctx context.Context, change []*playbook.Delta) (bool, error) {
	last := change[len(change)-1]
	id := ""
	if len(change) > 1 {
		id = w.changeID(last)
	}
	for _, d := range change {
		if len(change) > 1 {
			d.ChangeID, d.More = id, d != last
		}
		d.Version = w.playbook.Version() + 1
		d.PrevSeq, d.PrevChain = w.seq, w.chain
		d.Floor = max(d.Floor, w.floor)
		if len(w.dirty)+len(d.Ops) > playbook.MaxDeltaKeys { // so that the next flush fits into one batch
			const withKeys = true
			if err := w.flush(ctx, withKeys); err != nil {
				return false, err
			}
		}
		if stored, err := w.publish(ctx, d); err != nil || !stored {
			return false, err
		}
	}
	return true, nil
}

// publish stores the delta with compare-and-swap and folds it. It reports false if another writer committed first.
func (w *Writer) publish(ctx context.Context, d *playbook.Delta) (bool, error) {
	data, err := events.EncodeDelta(d)
	if err != nil {
		return false, fmt.Errorf("commit to playbook %q: %w", w.book, err)
	}
	msg := &nats.Msg{Subject: events.KindDelta.Subject(w.book), Data: data, Header: nats.Header(events.SchemaHeader())}
	ack, err := w.s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(w.log.end))
	if err == nil {
		// The record is decoded, because the caller may change the bullets of its delta later.
		c := newCandidate(direct.Message{Subject: msg.Subject, Seq: ack.Sequence, Header: msg.Header, Data: data})
		if c.err != nil {
			return false, c.err
		}
		if _, err := w.log.advance(c); err != nil {
			return false, err
		}
		w.reportBehind()
		return true, w.applyRecord(c.Record)
	}
	if !natserr.IsConflict(err) && ctx.Err() == nil && isRefusal(err) {
		return false, fmt.Errorf("commit to playbook %q: %w", w.book, err)
	}
	if natserr.IsConflict(err) && w.s.Meter != nil {
		w.s.Meter.Conflict()
	}
	// A conflict or a timeout. Half of the writes that timed out were stored, so read the log again. If the delta was stored and others came
	// after it, the next build finds all its events covered.
	if rerr := w.catchUp(ctx); rerr != nil {
		return false, errors.Join(err, rerr)
	}
	w.contended = contendedReads // also if the replica that was read does not have the other delta yet
	sum := sha256.Sum256(data)
	return bytes.Equal(w.chain, sum[:]), nil
}

// changeID returns the id of a change in several deltas. It hashes the covered ids and the chain hash of the log, so
// that a second attempt of the same change gets another id.
func (w *Writer) changeID(last *playbook.Delta) string {
	parts := make([]string, 0, 3+len(last.Covers))
	parts = append(parts, "change", string(w.book), string(w.chain))
	for _, c := range last.Covers {
		parts = append(parts, c.ID)
	}
	return string(events.Hash(parts...))
}

// isRefusal reports an error reply of the server, as opposed to no reply.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || natserr.IsDenied(err)
}

// pause waits try² milliseconds, or until ctx ends.
func pause(ctx context.Context, try int) error {
	return events.Sleep(ctx, time.Duration(try*try)*time.Millisecond)
}
