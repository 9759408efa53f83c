package natskv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"debrief/events"
	"debrief/playbook"
)

// view is what the bucket holds of a book.
type view struct {
	head    head
	headRev uint64 // revision of the head's key, 0 if it was never written; a deleted head has version 0
	bullets map[playbook.BulletID]*playbook.Bullet
}

// playbook is the view as a playbook, nil if head and bullets do not belong together.
func (v *view) playbook() *playbook.Playbook {
	p := playbook.Restore(v.head.Version, v.head.Last, maps.Values(v.bullets))
	if p.Len() != v.head.Count || p.Checksum() != v.head.Sum {
		return nil
	}
	return p
}

// viewReads is how often a view that changes under the reader is read again before it counts as torn.
const viewReads = 3

func (s *Store) readView(ctx context.Context, b playbook.Book) (*view, error) {
	for try := 1; ; try++ {
		v := &view{bullets: make(map[playbook.BulletID]*playbook.Bullet)}
		keys := make(map[string]playbook.BulletID)
		err := s.scan(ctx, viewStream, viewPrefix+string(b)+".>", 1, func(m message) error {
			return v.put(b, m, keys)
		})
		if err != nil {
			return nil, err
		}
		if try == viewReads || v.head.Version == 0 || v.playbook() != nil {
			return v, nil
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// put takes one stored key. Keys remembers which bullet a key held, for the marker that removes it.
func (v *view) put(b playbook.Book, m message, keys map[string]playbook.BulletID) error {
	e, err := parseEntry(b, m)
	if err != nil {
		return err
	}
	switch {
	case m.subject == viewPrefix+events.HeadKey(b):
		v.head, v.headRev = head{}, m.seq
		if e.head != nil {
			v.head = *e.head
		}
	case e.bullet != nil:
		v.bullets[e.bullet.ID] = e.bullet
		keys[m.subject] = e.bullet.ID
	default:
		delete(v.bullets, keys[m.subject])
	}
	return nil
}

// entry is one value of the bucket: a head, a bullet, or the marker of a removed one.
type entry struct {
	head   *head
	bullet *playbook.Bullet
}

func parseEntry(b playbook.Book, m message) (e entry, err error) {
	key := strings.TrimPrefix(m.subject, viewPrefix)
	if m.header.Get("KV-Operation") != "" {
		return e, nil
	}
	if key == events.HeadKey(b) {
		e.head = new(head)
		err = events.Unmarshal(m.data, e.head)
	} else {
		e.bullet = new(playbook.Bullet)
		err = events.Unmarshal(m.data, e.bullet)
	}
	if err != nil {
		return e, fmt.Errorf("key %q: %w", key, err)
	}
	return e, nil
}

// Flush brings the view to the version of the writer: the changed bullets and, last, the head, in one atomic batch.
// It does nothing when the view is there already. When another writer was first, what that one wrote is taken into
// account and the rest goes in a second attempt.
func (w *Writer) Flush(ctx context.Context) error {
	for try := range commitTries {
		if w.playbook.Version() <= w.viewAt && !w.repair {
			return nil
		}
		err := w.flushOnce(ctx)
		if err == nil {
			return nil
		}
		if !isConflict(err) && (ctx.Err() != nil || isRefusal(err)) {
			return fmt.Errorf("flush playbook %q: %w", w.book, err)
		}
		if rerr := w.readHead(ctx); rerr != nil {
			return fmt.Errorf("flush playbook %q: %w", w.book, errors.Join(err, rerr))
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
	return fmt.Errorf("flush playbook %q: the head moved %d times in a row", w.book, commitTries)
}

// CheckView looks at the head another writer may have moved or left behind; Lag then says how far the view is.
func (w *Writer) CheckView(ctx context.Context) error {
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	return w.readHead(ctx)
}

// readHead learns where the view is. Bullets changed up to there are no longer dirty.
func (w *Writer) readHead(ctx context.Context) error {
	m, err := w.s.last(ctx, viewStream, viewPrefix+events.HeadKey(w.book))
	if err != nil {
		return err
	}
	if m == nil {
		m = new(message)
	}
	var e entry
	if m.seq > 0 {
		if e, err = parseEntry(w.book, *m); err != nil {
			return err
		}
	}
	if e.head != nil {
		w.flushed(e.head.Version, m.seq)
		return nil
	}
	w.headRev, w.viewAt, w.repair = m.seq, 0, m.seq > 0 // no head: everything is to be written
	for b := range w.playbook.All() {
		w.dirty[b.ID] = w.playbook.Version()
	}
	return nil
}

// flushed notes that the view is at a version.
func (w *Writer) flushed(version, rev uint64) {
	w.viewAt, w.headRev, w.repair = version, rev, w.repair && version > w.playbook.Version()
	maps.DeleteFunc(w.dirty, func(_ playbook.BulletID, changed uint64) bool { return changed <= version })
}

// flushOnce writes what is dirty. More than one batch's worth, which only a repair has, goes in several; readers keep
// their version until the head, which comes last, fits.
func (w *Writer) flushOnce(ctx context.Context) error {
	h := w.head()
	ids := slices.Sorted(maps.Keys(w.dirty))
	for len(ids) > playbook.MaxDeltaKeys {
		if _, err := w.batch(ctx, ids[:playbook.MaxDeltaKeys], nil); err != nil {
			return err
		}
		ids = ids[playbook.MaxDeltaKeys:]
	}
	rev, err := w.batch(ctx, ids, &h)
	if err != nil {
		return err
	}
	w.flushed(h.Version, rev)
	return nil
}

// Headers of the server's atomic batches (NATS ADR-50): all messages or none.
const (
	batchID     = "Nats-Batch-Id"
	batchSeq    = "Nats-Batch-Sequence"
	batchCommit = "Nats-Batch-Commit"
)

// batch writes bullets, and the head if there is one, and returns the sequence of the last message.
func (w *Writer) batch(ctx context.Context, ids []playbook.BulletID, h *head) (uint64, error) {
	id := nuid.Next()
	n := len(ids)
	if h != nil {
		n++
	}
	for i, bullet := range ids {
		msg, err := w.bulletMsg(bullet)
		if err != nil {
			return 0, err
		}
		msg.Header.Set(batchID, id)
		msg.Header.Set(batchSeq, strconv.Itoa(i+1))
		if h == nil && i == 0 {
			msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.headRev, 10))
			msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, viewPrefix+events.HeadKey(w.book))
		}
		if i+1 == n {
			return w.commitBatch(ctx, msg)
		}
		if err := w.s.nc.PublishMsg(msg); err != nil {
			return 0, err
		}
	}
	data, err := events.Marshal(h)
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: viewPrefix + events.HeadKey(w.book), Data: data, Header: nats.Header{}}
	msg.Header.Set(batchID, id)
	msg.Header.Set(batchSeq, strconv.Itoa(n))
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.headRev, 10))
	return w.commitBatch(ctx, msg)
}

func (w *Writer) bulletMsg(id playbook.BulletID) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: viewPrefix + events.BulletKey(w.book, id), Header: nats.Header{}}
	b := w.playbook.Bullet(id)
	if b == nil {
		msg.Header.Set("KV-Operation", "DEL")
		return msg, nil
	}
	var err error
	msg.Data, err = events.Marshal(b)
	return msg, err
}

// batchTimeout bounds the wait for the word on a batch; the server gives up on an unfinished one after 10 s.
const batchTimeout = 10 * time.Second

func (w *Writer) commitBatch(ctx context.Context, msg *nats.Msg) (uint64, error) {
	msg.Header.Set(batchCommit, "1")
	wait, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	reply, err := w.s.nc.RequestMsgWithContext(wait, msg)
	if err != nil {
		return 0, ownTimeout(ctx, err)
	}
	return parsePubAck(reply.Data)
}
