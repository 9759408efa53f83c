package natskv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/playbook"
)

// State is what a delta is made against: the newest fold of the log. It must not be kept or changed.
type State struct {
	f   *fold
	ids *index // nil until OpenIndex
}

// Playbook is the state of the bullets.
func (s State) Playbook() *playbook.Playbook { return &s.f.playbook }

// Chain is the chain hash of the log so far.
func (s State) Chain() []byte { return s.f.chain }

// Floor is the sequence at or under which everything was settled before the newest delta.
func (s State) Floor() uint64 { return s.f.floor }

// Writer commits deltas to one book and brings its view up to date. It is for one goroutine; writers in other
// processes may race it.
type Writer struct {
	s *Store
	fold
	log *logCursor // at the delta that was folded last
	ids *index     // of the covered ids; nil until OpenIndex

	// dirty holds the bullets changed after the version that the view is at, with the version that changed them.
	dirty   map[playbook.BulletID]uint64
	viewAt  uint64 // version of the head in the bucket
	headRev uint64 // revision of its key, 0 if it was never written
	// repair says that the view may contradict the log: the next flush compares the two and writes what differs. Stray
	// are the keys of the view that are no bullet's.
	repair bool
	stray  []string
	lost   *lostEnd // recorded in the head
	// wary counts down the reads that find no other writer's news; while it is above zero Commit reads first.
	wary       int
	reconnects uint64 // of the connection, when it was looked at last
}

// wariness is how many times in a row the end of the log is found where it was left before Commit no longer looks.
// Several writers on one book meet a conflict in most commits unless they look right before the compare-and-swap; for
// one alone the look is half of what a commit costs. What is overlooked costs a conflict and a second build.
const wariness = 10

// Writer opens a book for writing: it reads the view, folds what the log has beyond it, and folds the whole log
// instead where the two disagree. It writes nothing; the first Flush repairs the view.
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

// State is the newest state the writer knows of.
func (w *Writer) State() State { return State{&w.fold, w.ids} }

// Lag is how many versions the view is behind.
func (w *Writer) Lag() uint64 { return w.playbook.Version() - min(w.viewAt, w.playbook.Version()) }

func (w *Writer) open(ctx context.Context) error {
	v, err := w.s.readView(ctx, w.book)
	if err != nil {
		return err
	}
	w.headRev = v.headRev
	ok, err := w.trust(ctx, v)
	if err != nil {
		return err
	}
	if ok {
		w.viewAt = v.head.Version
	}
	if w.lost = v.head.Lost; !ok {
		if w.lost, err = w.s.lostBy(ctx, w.book, &v.head); err != nil {
			return err
		}
	}
	w.repair = !ok // torn, ahead of the log or of another log: the log is the truth
	return w.catchUp(ctx)
}

// trust starts the fold from a view, if the log bears it out.
func (w *Writer) trust(ctx context.Context, v *view) (bool, error) {
	if v.head.Version == 0 {
		return len(v.values) == 0, nil
	}
	restored := v.playbook()
	if restored == nil {
		return false, nil
	}
	errPast := errors.New("past the head")
	ok := false
	f := fold{book: w.book, playbook: *restored}
	log := startAt(w.book, min(v.head.From, v.head.Seq))
	err := w.s.candidates(ctx, w.book, log.anchor, func(m *candidate) error {
		if m.Seq > v.head.Seq {
			return errPast
		}
		if next, err := log.take(m); err != nil || !next {
			return err
		}
		f.playbook.Reopen(&m.Delta)
		f.note(m.Record)
		ok = m.Seq == v.head.Seq && m.Version == v.head.Version && bytes.Equal(m.Chain, v.head.Chain)
		return nil
	})
	if err != nil && !errors.Is(err, errPast) && !errors.Is(err, ErrBrokenLog) {
		return false, err
	}
	if ok {
		w.fold, w.log = f, log
	}
	return ok, nil
}

// Rebuild forgets what the writer knows and folds the log from its beginning; the next Flush compares every key of the
// view with it, and forgets a recorded loss.
func (w *Writer) Rebuild(ctx context.Context) error {
	w.fold = fold{book: w.book}
	w.log = &logCursor{book: w.book}
	if w.ids != nil {
		w.ids.reset()
	}
	w.viewAt, w.repair, w.lost = 0, true, nil
	clear(w.dirty)
	if err := w.catchUp(ctx); err != nil {
		return fmt.Errorf("rebuild playbook %q: %w", w.book, err)
	}
	return nil
}

// catchUp folds what others have committed since. A log that does not hold what was folded is another one, as after a
// power loss that took its end: ErrBrokenLog, and who opens the book again gets what is left.
func (w *Writer) catchUp(ctx context.Context) error {
	m, err := w.s.last(ctx, events.StreamDeltas, events.KindDelta.Subject(w.book))
	if err != nil {
		return err
	}
	if m != nil && m.Seq > w.log.end {
		w.wary = wariness
		return w.s.deltas(ctx, w.log, w.take)
	}
	w.wary = max(w.wary-1, 0)
	if w.at(m) {
		return nil
	}
	// A replica that lags has an older end, too. The leader knows.
	last, err := w.s.deltaOfLeader(ctx, map[string]any{"last_by_subj": events.KindDelta.Subject(w.book)})
	switch {
	case err != nil:
		return err
	case last == nil:
		m = nil
	default:
		m = &direct.Message{Subject: last.Subject, Seq: last.Seq, Data: last.Data}
	}
	if m != nil && m.Seq > w.log.end || w.at(m) {
		return nil // what is new, the next look finds
	}
	if w.log.cut(m) {
		return nil
	}
	return w.log.gone()
}

// at reports whether a message, nil for none, is the one that was read last. A server that lost the end of its log
// gives out the same sequences again.
func (w *Writer) at(m *direct.Message) bool {
	if m == nil {
		return w.log.end == 0
	}
	sum := sha256.Sum256(m.Data)
	return m.Seq == w.log.end && bytes.Equal(sum[:], w.log.endHash)
}

// take folds one stored record, marks the changed bullets and indexes the covered ids.
func (w *Writer) take(r *Record) error {
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

// commitTries bounds how often one commit is rebased: with three writers on one book 3 to 5 of 100 commits meet a
// conflict once, so this many in a row is something else.
const commitTries = 20

// Commit publishes one change: a delta, or several that take effect together. Build makes it from the newest state:
// operations, what it covers, the floor, author and reason; Commit adds the versions and the links. Build runs again on
// the newer state when another writer was first, so it must be cheap and must not call a model. Commit returns nothing
// when there is nothing (left) to commit.
//
// When Commit returns without an error the change is stored. When it returns one, it may be: what it covers is then
// found covered at the next attempt.
func (w *Writer) Commit(ctx context.Context, build func(State) ([]*playbook.Delta, error)) ([]*playbook.Delta, error) {
	began := time.Now()
	if n := w.s.nc.Stats().Reconnects; n != w.reconnects { // to what may be another server, or what is left of its disk
		w.reconnects, w.wary = n, wariness
	}
	for try := range commitTries {
		read := w.wary > 0
		if read {
			if err := w.catchUp(ctx); err != nil {
				return nil, err
			}
		}
		change, err := build(w.State())
		if err != nil || len(change) == 0 {
			if !read { // that there is nothing to do is for the newest state to say
				w.wary = 1
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

// contendedError is returned when a delta lost its compare-and-swap again and again although nobody else's was found in
// the log: the copy of it that was asked lags, or the stream's leader has writes in flight that it cannot get confirmed.
// That is over when the servers agree again, and not the delta's fault.
type contendedError struct{ book playbook.Book }

func (e *contendedError) Error() string {
	return fmt.Sprintf("commit to playbook %q: lost %d races in a row", e.book, commitTries)
}

// Unavailable marks it as about the servers, which what is committed should wait for.
func (e *contendedError) Unavailable() bool { return true }

// publishAll stores the deltas of one change, one right after the other. It reports false when another writer came
// first or in between: what is stored of the change by then never takes effect.
func (w *Writer) publishAll(ctx context.Context, change []*playbook.Delta) (bool, error) {
	last := change[len(change)-1]
	name := ""
	if len(change) > 1 {
		name = w.changeID(last)
	}
	for _, d := range change {
		if len(change) > 1 {
			d.Change, d.More = name, d != last
		}
		d.Version, d.PrevSeq, d.PrevChain = w.playbook.Version()+1, w.seq, w.chain
		d.Floor = max(d.Floor, w.floor)
		if len(w.dirty)+len(d.Ops) > playbook.MaxDeltaKeys {
			if err := w.Flush(ctx); err != nil {
				return false, err
			}
		}
		if stored, err := w.publish(ctx, d); err != nil || !stored {
			return false, err
		}
	}
	return true, nil
}

// publish stores the delta if the log is where it was folded up to, and folds it. It reports false when another
// writer was first.
func (w *Writer) publish(ctx context.Context, d *playbook.Delta) (bool, error) {
	data, err := events.EncodeDelta(d)
	if err != nil {
		return false, fmt.Errorf("commit to playbook %q: %w", w.book, err)
	}
	msg := &nats.Msg{Subject: events.KindDelta.Subject(w.book), Data: data, Header: nats.Header(events.SchemaHeader())}
	ack, err := w.s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(w.log.end))
	if err == nil {
		r, err := published(d, ack.Sequence, data)
		if err != nil {
			return false, err
		}
		if _, err := w.log.take(&candidate{Record: r}); err != nil {
			return false, err
		}
		w.behind()
		return true, w.take(r)
	}
	if !isConflict(err) && ctx.Err() == nil && isRefusal(err) {
		return false, fmt.Errorf("commit to playbook %q: %w", w.book, err)
	}
	if isConflict(err) && w.s.Meter != nil {
		w.s.Meter.Raced()
	}
	// A conflict, or no word at all: half of the writes that came back with a time-out had been stored. The log knows.
	// If it was stored, the next build finds everything covered.
	if rerr := w.catchUp(ctx); rerr != nil {
		return false, errors.Join(err, rerr)
	}
	w.wary = wariness // also where the news has not come through to whom we asked
	return false, nil
}

// published is the record of a delta that was stored as data, the same that a reader of the log decodes. Only what holds
// rules or whole bullets is decoded for that: those may be shared with whoever made the delta. The rest are values.
func published(d *playbook.Delta, seq uint64, data []byte) (*Record, error) {
	if d.More || slices.ContainsFunc(d.Ops, func(op playbook.Op) bool { return op.Rule != nil || op.Whole != nil }) {
		decoded, err := events.DecodeDelta(data)
		if err != nil {
			return nil, fmt.Errorf("delta at sequence %d: %w", seq, err)
		}
		d = decoded
	}
	sum := sha256.Sum256(data)
	r := &Record{*d, seq, sum[:], len(data)}
	r.Time = r.Time.UTC().Round(0)
	return r, nil
}

// changeID names a change in several deltas: by what it covers and by the log that it was made for, so that the same
// change made again is another one.
func (w *Writer) changeID(last *playbook.Delta) string {
	parts := make([]string, 0, 3+len(last.Covers))
	parts = append(parts, "change", string(w.book), string(w.chain))
	for _, c := range last.Covers {
		parts = append(parts, c.ID)
	}
	return string(events.Hash(parts...))
}

// isConflict reports a lost compare-and-swap: 10071, or 10164 where a write of the same subject was still in flight.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == 10071 || api.ErrorCode == 10164)
}

// isRefusal reports an answer of the server, as against no answer.
func isRefusal(err error) bool {
	var api *jetstream.APIError
	var refused *denied.Error
	return errors.As(err, &api) || errors.As(err, &refused)
}

func pause(ctx context.Context, try int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(try*try) * time.Millisecond):
		return nil
	}
}
