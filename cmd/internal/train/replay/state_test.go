package replay

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// lease acquires a run without running it.
func lease(t *testing.T, conn *bus.Conn, name string) (*state, error) {
	t.Helper()
	r := &run{Config: Config{}.withDefaults(), Options: Options{Name: name}, book: playbook.Book(name), store: deltalog.New(conn.JetStream()), conn: conn}
	return acquire(t.Context(), conn.JetStream(), r, func(error) {})
}

// stored returns a run's record in the bucket, and a function that changes it there.
func stored(t *testing.T, conn *bus.Conn, name string) (*record, func(change func(*record))) {
	t.Helper()
	kv, err := conn.JetStream().KeyValue(t.Context(), events.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	var entry jetstream.KeyValueEntry
	if entry, err = kv.Get(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	rec := new(record)
	if err := json.Unmarshal(entry.Value(), rec); err != nil {
		t.Fatal(err)
	}
	return rec, func(change func(*record)) {
		t.Helper()
		change(rec)
		data, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReleaseClearsOwner includes a heartbeat that was stored although its reply was lost.
func TestReleaseClearsOwner(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s, err := lease(t, conn, "r")
	if err != nil {
		t.Fatal(err)
	}
	_, change := stored(t, conn, "r")
	change(func(*record) {}) // stores the owner's record at a revision unknown to the owner
	if err := s.release(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if rec, _ := stored(t, conn, "r"); rec.Owner != nil || rec.Ended.IsZero() {
		t.Errorf("the run is owned by %+v and ended at %v", rec.Owner, rec.Ended)
	}
	if s, err = lease(t, conn, "r"); err != nil {
		t.Fatalf("another one cannot go on: %v", err)
	}
	if err := s.release(t.Context(), true); err != nil {
		t.Error(err)
	}

	// A process whose first write failed owns nothing either.
	r := &run{Options: Options{Name: "cut"}, book: "cut", store: deltalog.New(conn.JetStream()), conn: conn}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
	defer cancel()
	if s, err := acquire(ctx, conn.JetStream(), r, func(error) {}); err == nil {
		_ = s.release(t.Context(), false)
	}
	if s, err := lease(t, conn, "cut"); errors.As(err, new(*InUseError)) {
		t.Errorf("after one that did not begin: %v", err)
	} else if err == nil {
		_ = s.release(t.Context(), false)
	}
}

// TestSeveralBegin: processes that begin at the same time do not know each other.
func TestSeveralBegin(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = lease(t, conn, "r") })
	}
	wg.Wait()
	owners := 0
	for _, err := range errs {
		var used *InUseError
		switch {
		case err == nil:
			owners++
		case !errors.As(err, &used) || strings.Contains(err.Error(), "process 0"):
			t.Errorf("got %v, want one that says the run is in use", err)
		}
	}
	if owners != 1 {
		t.Errorf("got %d owners, want 1", owners)
	}
}

func TestLiveLeaseIsNotTaken(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s, err := lease(t, conn, "r")
	if err != nil {
		t.Fatal(err)
	}
	_, change := stored(t, conn, "r")
	other := owner{ID: events.NewID(), Host: "elsewhere", PID: 7}
	change(func(rec *record) { rec.Owner = &other })
	if err := s.release(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	rec, change := stored(t, conn, "r")
	if rec.Owner == nil || rec.Owner.ID != other.ID || !rec.Ended.IsZero() {
		t.Fatalf("the run was taken from its owner: %+v, ended %v", rec.Owner, rec.Ended)
	}
	// The clock of the other machine is an hour slow, and then an hour fast.
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		change(func(rec *record) { rec.Owner.Beat = time.Now().Add(wrong) })
		var used *InUseError
		if _, err := lease(t, conn, "r"); !errors.As(err, &used) || used.Silent > time.Minute {
			t.Errorf("clock wrong by %s: got %v, want one that says the run is in use", wrong, err)
		}
	}
}

// clusterKV refuses each write with the conflict of a cluster in which another write to the key is in flight.
type clusterKV struct{ jetstream.KeyValue }

func (clusterKV) Update(context.Context, string, []byte, uint64) (uint64, error) {
	return 0, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant}
}

func TestConflictOfACluster(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s, err := lease(t, conn, "r")
	if err != nil {
		t.Fatal(err)
	}
	kv := s.kv
	s.kv = clusterKV{kv}
	if err := s.write(t.Context()); err == nil || errors.Is(err, errOwnerChanged) {
		t.Errorf("own record: got %v, want another error", err)
	}
	_, change := stored(t, conn, "r")
	change(func(rec *record) { rec.Owner = &owner{ID: events.NewID(), Host: "elsewhere", PID: 7} })
	if err := s.write(t.Context()); !errors.Is(err, errOwnerChanged) {
		t.Errorf("got %v, want that another process has taken over the run", err)
	}
	s.kv = kv
	if err := s.release(t.Context(), false); err != nil {
		t.Error(err)
	}
}
