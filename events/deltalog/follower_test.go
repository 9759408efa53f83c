package deltalog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/deltalog"
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

// TestFollowerReadsOnlyTheChangedBullets counts the reads of a follower: a scan of the view costs the server the more, the
// larger the playbook is.
func TestFollowerReadsOnlyTheChangedBullets(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	w := writer(t, s, "b")
	flush := func(ops ...playbook.Op) {
		t.Helper()
		commit(t, w, func(deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Author: "tester", Time: time.Now().UTC(), Ops: ops}}, nil
		})
		check(t, w.Flush(t.Context()))
	}
	newBullet := func(n uint64) playbook.Op {
		return playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: "Count again."}
	}
	flush(newBullet(1), newBullet(2), newBullet(3))
	f, wait, err := s.Follow(t.Context(), "b")
	check(t, err)
	defer wait()
	reads, err := nc.SubscribeSync("$JS.API.DIRECT.GET.KV_" + events.BucketPlaybook)
	check(t, err)
	check(t, nc.Flush())
	count := func() (scans, changes int) {
		t.Helper()
		check(t, nc.Flush())
		for {
			m, err := reads.NextMsg(100 * time.Millisecond)
			if err == nats.ErrTimeout {
				return scans, changes
			}
			check(t, err)
			if strings.Contains(string(m.Data), "next_by_subj") {
				scans++
			} else if strings.Contains(string(m.Data), "multi_last") {
				changes++
			}
		}
	}
	compare := func() {
		t.Helper()
		check(t, f.Wait(t.Context(), w.State().Playbook().Version()))
		f.Read(func(p *playbook.Playbook, _ []byte) {
			if want := w.State().Playbook(); p.Checksum() != want.Checksum() || p.Len() != want.Len() {
				t.Errorf("version %d has %d bullets and another checksum, want %d", p.Version(), p.Len(), want.Len())
			}
		})
	}
	flush(newBullet(4))
	compare()
	flush(playbook.Op{Kind: playbook.Remove, Bullet: playbook.MintID("others", 2)})
	compare()
	flush(playbook.Op{Kind: playbook.Pin, Bullet: playbook.MintID("others", 1)}, newBullet(5))
	compare()
	if scans, changes := count(); scans != 0 || changes != 3 {
		t.Errorf("%d scans and %d reads of changed bullets, want 0 and 3", scans, changes)
	}
	for n := range uint64(20) { // the mirror falls behind by several flushes
		flush(newBullet(6 + n))
	}
	compare()
}
