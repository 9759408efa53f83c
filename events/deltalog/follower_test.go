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
