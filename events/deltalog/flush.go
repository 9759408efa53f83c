package deltalog

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
	"debrief/events/natserr"
	"debrief/playbook"
)

// Flush updates the view to the version of the writer. It does nothing if the view already has that version. On a conflict with
// another writer it reads the new head and retries with the remaining changes. If the view contradicts the log, Flush compares
// them key by key and writes the differences.
func (w *Writer) Flush(ctx context.Context) error { return w.flush(ctx, false) }

// flush is Flush. If withKeys is set, it also writes the keys of all changed bullets, even if the view has the version of the writer.
func (w *Writer) flush(ctx context.Context, withKeys bool) error {
	for try := range commitTries {
		if w.needsRepair {
			if err := w.compareView(ctx); err != nil {
				return fmt.Errorf("flush playbook %q: %w", w.book, err)
			}
		}
		isCurrent := w.playbook.Version() <= w.viewVersion && !w.needsRepair
		needsKeys := withKeys && len(w.dirty) > 0
		if isCurrent && !needsKeys {
			w.reportCurrent()
			return nil
		}
		w.reportBehind()
		err := w.flushOnce(ctx, withKeys)
		if err == nil {
			w.reportCurrent()
			return nil
		}
		isFinal := ctx.Err() != nil || isRefusal(err) // without an answer of the server, the batch may be stored
		if isFinal && !natserr.IsConflict(err) {
			return fmt.Errorf("flush playbook %q: %w", w.book, err)
		}
		if rerr := w.readHead(ctx); rerr != nil {
			return fmt.Errorf("flush playbook %q: %w", w.book, errors.Join(err, rerr))
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
	return fmt.Errorf("flush playbook %q: %d conflicts in a row", w.book, commitTries)
}

// CheckView folds new deltas and reads the head of the view, which another writer may have changed. ViewLag then returns
// the current lag of the view.
func (w *Writer) CheckView(ctx context.Context) error {
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	return w.readHead(ctx)
}

// readHead reads the head of the view.
func (w *Writer) readHead(ctx context.Context) error {
	h, rev, err := w.s.readHead(ctx, w.book)
	if err != nil {
		return err
	}
	if h == nil {
		wasWritten := rev > 0 || w.headRev > 0 // a view that was never written needs no repair
		w.needsRepair = w.needsRepair || wasWritten
		w.viewVersion, w.headRev = 0, rev
		return nil
	}
	if !w.needsRepair { // otherwise this writer may have found a loss that is not in the head yet
		w.lost = h.Lost
	}
	isOfOtherLog := h.Version == w.playbook.Version() && !bytes.Equal(h.Chain, w.chain)
	isOlder := h.Version < w.viewVersion // the bucket lost bullets that w.dirty does not contain
	w.needsRepair = w.needsRepair || h.Partial || isOfOtherLog || isOlder
	w.setView(h, rev)
	return nil
}

// setView records a head of the view and its revision. Of the bullets that changed up to the version of the head, its recent bullets are
// dirty, and no others. They are dirty even if this writer has written their keys: a power loss may have removed the keys before another
// writer wrote this head.
func (w *Writer) setView(h *head, rev uint64) {
	w.viewVersion, w.headRev = h.Version, rev
	w.keysVersion = h.Since
	maps.DeleteFunc(w.dirty, func(_ playbook.BulletID, changed uint64) bool { return changed <= h.Version })
	if h.WithKeys {
		w.keysVersion = h.Version
		return
	}
	for _, r := range h.Recent {
		w.dirty[r.ID] = max(w.dirty[r.ID], r.Version)
	}
}

// partialWait is the time after which the writer of a partial view counts as dead if the head did not change. One batch
// takes about 20 ms.
const partialWait = 250 * time.Millisecond

// stableView returns the view of a book when its head is complete or no longer changes.
func (s *Store) stableView(ctx context.Context, b playbook.Book) (*view, error) {
	var rev uint64
	for {
		v, err := s.readView(ctx, b)
		if err != nil || !v.head.Partial || v.headRev == rev {
			return v, err
		}
		rev = v.headRev
		if err := events.Sleep(ctx, partialWait); err != nil {
			return nil, err
		}
	}
}

// compareView marks exactly the keys as dirty that differ between view and log. There may be no difference: another
// writer has repaired the view, or the first read saw a view that was being written.
func (w *Writer) compareView(ctx context.Context) error {
	v, err := w.s.stableView(ctx, w.book)
	if err != nil {
		return err
	}
	// The log is read after the view, so that it contains every delta that the view contains.
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	clear(w.dirty)
	w.setView(&v.head, v.headRev)
	keysDiffer := false
	for b := range w.playbook.All() {
		data, err := events.Marshal(b)
		if err != nil {
			return err
		}
		key := events.BulletKey(w.book, b.ID)
		if !bytes.Equal(v.values[key].data, data) {
			w.dirty[b.ID] = w.playbook.Version()
			keysDiffer = true
		}
		delete(v.values, key)
	}
	w.strayKeys = slices.Collect(maps.Keys(v.values))
	want := w.newHead()
	v.head.Since, v.head.Recent = 0, nil // want has none, and v.values has the bullets
	v.head.WithKeys = false
	needsHead := want.Version > 0 || want.Lost != nil
	headDiffers := needsHead && !sameEncoding(&v.head, &want)
	w.needsRepair = keysDiffer || len(w.strayKeys) > 0 || headDiffers
	return nil
}

// maxRecent is the maximum size of head.Recent in bytes. The keys are written when Recent passes half of it. The head of that batch still
// has the bullets, so that followers need not scan the view. A larger head costs more, and a batch costs as much as many heads. Of the
// sizes from 32 KB to 512 KB, 128 KB and 256 KB took the least time for a flush of 10 or 50 bullets with a follower: a sixth of the time
// that it takes to write all keys.
const maxRecent = 128 << 10

// flushOnce publishes a head with the dirty bullets. If they are too large, if withKeys is set, and in a repair, it also writes their keys.
// If the keys do not fit into one batch it sends several, each with a partial head. Readers keep their version until the complete
// head, which is last. Every batch updates the head, so that one of two concurrent writers gets a conflict.
func (w *Writer) flushOnce(ctx context.Context, withKeys bool) error {
	h := w.newHead()
	changed, size, err := w.encodeDirty()
	if err != nil {
		return err
	}
	h.WithKeys = w.needsRepair || withKeys || size > w.s.maxRecent/2
	if w.needsRepair || size > w.s.maxRecent {
		h.Since = h.Version // Recent stays empty: followers scan the keys
	} else {
		h.Since, h.Recent = w.keysVersion, changed
	}
	var writes []keyWrite
	if h.WithKeys {
		for _, r := range changed {
			writes = append(writes, keyWrite{events.BulletKey(w.book, r.ID), r.Data})
		}
		for _, key := range w.strayKeys {
			writes = append(writes, keyWrite{key, nil})
		}
	}
	for len(writes) > playbook.MaxDeltaKeys {
		rev, err := w.publishBatch(ctx, writes[:playbook.MaxDeltaKeys], head{Version: w.viewVersion, Partial: true, Lost: w.lost})
		if err != nil {
			return err
		}
		w.headRev = rev
		writes = writes[playbook.MaxDeltaKeys:]
	}
	rev, err := w.publishBatch(ctx, writes, h)
	if err != nil {
		return err
	}
	w.needsRepair, w.strayKeys = false, nil
	w.setView(&h, rev)
	w.announce(h.Version)
	return nil
}

// encodeDirty returns the dirty bullets, sorted by id, and their size in a head.
func (w *Writer) encodeDirty() (all []recentBullet, size int, err error) {
	const overhead = 32 // of an entry
	all = make([]recentBullet, 0, len(w.dirty))
	for id, version := range w.dirty {
		r := recentBullet{ID: id, Version: version}
		if b := w.playbook.Bullet(id); b != nil {
			if r.Data, err = events.Marshal(b); err != nil {
				return nil, 0, err
			}
		}
		all = append(all, r)
		size += overhead + len(id) + len(r.Data)
	}
	slices.SortFunc(all, func(a, b recentBullet) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all, size, nil
}

// announce publishes the new version of the view to followers. The message has no reply subject, and followers do not
// subscribe to the batch itself: they could send a false reply before the server does. If the message is lost, followers
// see the version up to maxPoll later.
func (w *Writer) announce(version uint64) {
	_ = w.s.nc.Publish(events.HeadSubject(w.book), strconv.AppendUint(nil, version, 10)) // fails only if the connection is closed
}

// Headers of the server's atomic batches (NATS ADR-50): the server stores all messages or none.
const (
	batchID     = "Nats-Batch-Id"
	batchSeq    = "Nats-Batch-Sequence"
	batchCommit = "Nats-Batch-Commit"
)

// keyWrite is one key to write; empty data deletes it.
type keyWrite struct {
	key  string
	data []byte
}

// publishBatch writes keys and, last, the head as one atomic batch. A head alone is an ordinary message. publishBatch returns the head's
// revision. It returns a conflict if another writer has changed the head.
func (w *Writer) publishBatch(ctx context.Context, writes []keyWrite, h head) (uint64, error) {
	id := nuid.Next()
	for i, write := range writes {
		header := nats.Header{batchID: {id}, batchSeq: {strconv.Itoa(i + 1)}}
		if len(write.data) == 0 {
			header.Set("KV-Operation", "DEL")
		}
		if err := w.s.nc.PublishMsg(&nats.Msg{Subject: viewPrefix + write.key, Data: write.data, Header: header}); err != nil {
			return 0, err
		}
	}
	data, err := events.Marshal(&h)
	if err != nil {
		return 0, err
	}
	header := nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(w.headRev, 10)}}
	if len(writes) > 0 {
		header.Set(batchID, id)
		header.Set(batchSeq, strconv.Itoa(len(writes)+1))
		header.Set(batchCommit, "1")
	}
	return w.commitHead(ctx, &nats.Msg{Subject: viewPrefix + events.HeadKey(w.book), Data: data, Header: header})
}

// batchTimeout bounds the wait for the ack of a head. The server also discards an unfinished batch after 10 s.
const batchTimeout = 10 * time.Second

// commitHead publishes the message of a head, which ends a batch, and returns its revision.
func (w *Writer) commitHead(ctx context.Context, msg *nats.Msg) (uint64, error) {
	wait, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	reply, err := natserr.Call(wait, w.s.watch, "$KV."+events.BucketPlaybook, func(ctx context.Context) (*nats.Msg, error) {
		return w.s.nc.RequestMsgWithContext(ctx, msg)
	})
	if err != nil {
		return 0, natserr.AsTimeout(ctx, err)
	}
	return parsePubAck(reply.Data)
}

// parsePubAck returns the sequence or the error in the server's reply to a publish.
func parsePubAck(data []byte) (uint64, error) {
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return 0, fmt.Errorf("decode publish ack: %w", err)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	return ack.Seq, nil
}
