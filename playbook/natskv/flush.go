package natskv

import (
	"bytes"
	"context"
	"encoding/json"
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
	"debrief/events/denied"
	"debrief/playbook"
)

// Flush brings the view to the version of the writer: the changed bullets and, last, the head, in one atomic batch.
// It does nothing when the view is there already. When another writer was first, what that one wrote is taken into
// account and the rest goes in a second attempt. A view that contradicts the log is compared with it, key by key, and
// what differs is written.
func (w *Writer) Flush(ctx context.Context) error {
	for try := range commitTries {
		if w.repair {
			if err := w.compare(ctx); err != nil {
				return fmt.Errorf("flush playbook %q: %w", w.book, err)
			}
		}
		if w.playbook.Version() <= w.viewAt && !w.repair {
			w.current()
			return nil
		}
		w.behind()
		err := w.flushOnce(ctx)
		if err == nil {
			w.current()
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
	h, rev, err := w.s.readHead(ctx, w.book)
	if err != nil {
		return err
	}
	if h != nil && !w.repair { // else this writer has found a loss that the head does not say yet
		w.lost = h.Lost
	}
	switch {
	case h == nil:
		// A view that was there and is gone, or unreadable. One that never was is written like any other.
		w.repair = w.repair || rev > 0 || w.headRev > 0
		w.viewAt, w.headRev = 0, rev
	case h.Partial, h.Version == w.playbook.Version() && !bytes.Equal(h.Chain, w.chain), h.Version < w.viewAt:
		// Half written, of another log, or of a bucket that lost its end and with it bullets that are not dirty any more.
		w.viewAt, w.headRev, w.repair = h.Version, rev, true
	default:
		w.flushed(h.Version, rev)
	}
	return nil
}

// flushed notes that the view is at a version.
func (w *Writer) flushed(version, rev uint64) {
	w.viewAt, w.headRev = version, rev
	maps.DeleteFunc(w.dirty, func(_ playbook.BulletID, changed uint64) bool { return changed <= version })
}

// partialWait is how long the head of a view that is being written has to stand still before its writer counts as dead.
// A batch takes it some 20 ms.
const partialWait = 250 * time.Millisecond

// settled is the view as soon as nobody is in the middle of writing it.
func (w *Writer) settled(ctx context.Context) (*view, error) {
	var rev uint64
	for {
		v, err := w.s.readView(ctx, w.book)
		if err != nil || !v.head.Partial || v.headRev == rev {
			return v, err
		}
		rev = v.headRev
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(partialWait):
		}
	}
}

// compare finds what the view holds otherwise than the log says: that, and nothing else, is dirty then. Nothing may
// differ: another writer was faster, or the view was read while one was at it.
func (w *Writer) compare(ctx context.Context) error {
	v, err := w.settled(ctx)
	if err != nil {
		return err
	}
	// The log is read after the view, so that it knows whatever the view can hold.
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	w.viewAt, w.headRev = v.head.Version, v.headRev
	clear(w.dirty)
	for b := range w.playbook.All() {
		data, err := events.Marshal(b)
		if err != nil {
			return err
		}
		key := events.BulletKey(w.book, b.ID)
		if !bytes.Equal(v.values[key].data, data) {
			w.dirty[b.ID] = w.playbook.Version()
		}
		delete(v.values, key)
	}
	w.stray = slices.Collect(maps.Keys(v.values))
	h := w.newHead()
	data, err := events.Marshal(&h)
	if err != nil {
		return err
	}
	w.repair = len(w.dirty)+len(w.stray) > 0 || (h.Version > 0 || h.Lost != nil) && !bytes.Equal(v.headData, data)
	return nil
}

// write is one key to be written; a nil bullet removes it.
type write struct {
	key    string
	bullet *playbook.Bullet
}

// flushOnce writes what is dirty. More than one batch's worth goes in several, each with a head that says so; readers
// keep their version until the whole head, which comes last. Every batch moves the head, so that of two writers one
// gives way.
func (w *Writer) flushOnce(ctx context.Context) error {
	writes := make([]write, 0, len(w.dirty)+len(w.stray))
	for id := range w.dirty {
		writes = append(writes, write{events.BulletKey(w.book, id), w.playbook.Bullet(id)})
	}
	for _, key := range w.stray {
		writes = append(writes, write{key, nil})
	}
	slices.SortFunc(writes, func(a, b write) int { return strings.Compare(a.key, b.key) })
	for len(writes) > playbook.MaxDeltaKeys {
		rev, err := w.batch(ctx, writes[:playbook.MaxDeltaKeys], head{Version: w.viewAt, Partial: true, Lost: w.lost})
		if err != nil {
			return err
		}
		w.headRev, writes = rev, writes[playbook.MaxDeltaKeys:]
	}
	h := w.newHead()
	rev, err := w.batch(ctx, writes, h)
	if err != nil {
		return err
	}
	w.repair, w.stray = false, nil
	w.flushed(h.Version, rev)
	w.announce(h.Version)
	return nil
}

// announce tells followers the version of the view. It has no reply subject: a follower that received the commit of the
// batch itself could answer it before the server does. A lost message delays followers by lookLast.
func (w *Writer) announce(version uint64) {
	_ = w.s.nc.Publish(events.HeadSubject(w.book), strconv.AppendUint(nil, version, 10)) // fails on a closed connection only
}

// Headers of the server's atomic batches (NATS ADR-50): all messages or none.
const (
	batchID     = "Nats-Batch-Id"
	batchSeq    = "Nats-Batch-Sequence"
	batchCommit = "Nats-Batch-Commit"
)

// batch writes bullets and, last, the head, all of it or nothing, and returns the head's revision. It fails with a
// conflict when the head is not where this writer saw it.
func (w *Writer) batch(ctx context.Context, writes []write, h head) (uint64, error) {
	id := nuid.Next()
	for i, wr := range writes {
		msg, err := wr.message()
		if err != nil {
			return 0, err
		}
		msg.Header[batchID], msg.Header[batchSeq] = []string{id}, []string{strconv.Itoa(i + 1)}
		if err := w.s.nc.PublishMsg(msg); err != nil {
			return 0, err
		}
	}
	data, err := events.Marshal(&h)
	if err != nil {
		return 0, err
	}
	return w.commitBatch(ctx, &nats.Msg{Subject: viewPrefix + events.HeadKey(w.book), Data: data, Header: nats.Header{
		batchID: {id}, batchSeq: {strconv.Itoa(len(writes) + 1)}, batchCommit: {"1"},
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(w.headRev, 10)},
	}})
}

func (wr *write) message() (msg *nats.Msg, err error) {
	msg = &nats.Msg{Subject: viewPrefix + wr.key, Header: nats.Header{}}
	if wr.bullet == nil {
		msg.Header.Set("KV-Operation", "DEL")
		return msg, nil
	}
	msg.Data, err = events.Marshal(wr.bullet)
	return msg, err
}

// batchTimeout bounds the wait for the word on a batch; the server gives up on an unfinished one after 10 s.
const batchTimeout = 10 * time.Second

func (w *Writer) commitBatch(ctx context.Context, msg *nats.Msg) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	reply, err := denied.Call(wait, w.s.watch, "$KV."+events.BucketPlaybook, func(ctx context.Context) (*nats.Msg, error) {
		return w.s.nc.RequestMsgWithContext(ctx, msg)
	})
	if err != nil {
		return 0, ownTimeout(ctx, err)
	}
	return parsePubAck(reply.Data)
}

// parsePubAck is the sequence in the server's answer to a publish.
func parsePubAck(data []byte) (uint64, error) {
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("publish ack: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Seq, nil
}
