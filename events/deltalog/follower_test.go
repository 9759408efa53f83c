package deltalog_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// TestFollowerReportsAnUnreadableView: the follower reports an unreadable head, keeps its version, and reports nil after
// a writer has repaired the view.
func TestFollowerReportsAnUnreadableView(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, nc := open(t)
	reports := make(chan error, 100)
	s.OnStalled = func(b playbook.Book, why error) {
		if b != "b" {
			t.Errorf("reports of book %q, want b", b)
		}
		reports <- why
	}
	next := func() error {
		t.Helper()
		select {
		case why := <-reports:
			return why
		case <-time.After(30 * time.Second):
			t.Fatal("got no report")
			return nil
		}
	}
	w := writer(t, s, "b")
	commit(t, w, add("r1", 1))
	check(t, w.Flush(t.Context()))
	f, wait, err := s.Follow(t.Context(), "b")
	check(t, err)
	defer wait()
	js, err := jetstream.New(nc)
	check(t, err)
	kv, err := js.KeyValue(t.Context(), events.BucketPlaybook)
	check(t, err)
	_, err = kv.Put(t.Context(), events.HeadKey("b"), []byte("no head"))
	check(t, err)
	if why := next(); why == nil || f.Version() != 1 {
		t.Errorf("got %v at version %d, want an error at version 1", why, f.Version())
	}
	w = writer(t, s, "b")
	commit(t, w, add("r2", 2))
	check(t, w.Flush(t.Context()))
	check(t, f.Wait(t.Context(), 2))
	for next() != nil { // the error may have been reported several times
	}
}

// TestFollowerDoesNotScan counts the reads of a follower: a scan of the view costs the server the more, the larger the playbook is.
func TestFollowerDoesNotScan(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	kv, err := js.KeyValue(t.Context(), events.BucketPlaybook)
	check(t, err)
	w := writer(t, s, "b")
	newBullet := func(n uint64) playbook.Op {
		return playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: "Count again."}
	}
	commitAndFlush(t, w, newBullet(1), newBullet(2), newBullet(3))
	f, wait, err := s.Follow(t.Context(), "b")
	check(t, err)
	defer wait()
	scans, err := nc.SubscribeSync("$JS.API.DIRECT.GET.KV_" + events.BucketPlaybook) // a head alone is read from another subject
	check(t, err)
	check(t, nc.Flush())
	compare := func() {
		t.Helper()
		check(t, f.Wait(t.Context(), w.State().Playbook().Version()))
		f.Read(func(p *playbook.Playbook, _ []byte) {
			if want := w.State().Playbook(); p.Checksum() != want.Checksum() || p.Len() != want.Len() {
				t.Errorf("version %d has %d bullets and another checksum, want %d", p.Version(), p.Len(), want.Len())
			}
		})
	}
	commitAndFlush(t, w, newBullet(4))
	compare()
	commitAndFlush(t, w, playbook.Op{Kind: playbook.Remove, Bullet: playbook.MintID("others", 2)})
	compare()
	for n := range uint64(20) { // the mirror falls behind by several flushes
		commitAndFlush(t, w, playbook.Op{Kind: playbook.Pin, Bullet: playbook.MintID("others", 1)}, newBullet(5+n))
	}
	compare()
	s.SmallHeads(5000) // the next flush writes the keys
	commitAndFlush(t, w, newBullet(30))
	compare()
	commitAndFlush(t, w, newBullet(31))
	compare()
	if _, err := kv.Get(t.Context(), events.BulletKey("b", playbook.MintID("others", 30))); err != nil {
		t.Errorf("read the key of bullet 30: %v", err)
	}
	check(t, nc.Flush())
	if m, err := scans.NextMsg(100 * time.Millisecond); err == nil {
		t.Errorf("the follower sent %s, want only reads of the head", m.Data)
	}
}

// TestFlushWritesTheKeysSeldom: most flushes publish one message, the head, and an atomic batch follows when the bullets in it are too
// large. A new writer continues with the head of another one.
func TestFlushWritesTheKeysSeldom(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	kv, err := js.KeyValue(t.Context(), events.BucketPlaybook)
	check(t, err)
	keys := func() int {
		t.Helper()
		all, err := kv.Keys(t.Context())
		check(t, err)
		return len(all)
	}
	s.SmallHeads(600)
	commit(t, writer(t, s, "b"), add("r1", 1))
	w := writer(t, s, "b")
	check(t, w.Flush(t.Context()))
	if n := keys(); n != 1 {
		t.Errorf("the first flush wrote %d keys, want the head", n)
	}
	w = writer(t, s, "b")
	commit(t, w, add("r2", 2))
	check(t, w.Flush(t.Context()))
	commit(t, w, add("r3", 3))
	check(t, w.Flush(t.Context()))
	if n := keys(); n < 3 {
		t.Errorf("three flushes wrote %d keys, want the head and at least two bullets", n)
	}
	if got := writer(t, s, "b").State().Playbook(); got.StateHash() != w.State().Playbook().StateHash() {
		t.Errorf("a writer opened from the view has %d bullets at version %d, want %d at version %d",
			got.Len(), got.Version(), w.State().Playbook().Len(), w.State().Playbook().Version())
	}
}
