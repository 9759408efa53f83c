package replay

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// lease takes a run without a runner.
func lease(t *testing.T, conn *bus.Conn, name string) (*state, error) {
	t.Helper()
	r := &run{Config: Config{}.WithDefaults(), Options: Options{Name: name}, book: playbook.Book(name), store: natskv.New(conn.JetStream()), conn: conn}
	return take(t.Context(), conn.JetStream(), r, func(error) {})
}

// stored is a run's record as it is in the bucket, and what changes it there.
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

// TestALeaseEndsWithItsOwner: also where the last sign of life was stored and its answer got lost.
func TestALeaseEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s, err := lease(t, conn, "r")
	if err != nil {
		t.Fatal(err)
	}
	_, change := stored(t, conn, "r")
	change(func(*record) {}) // what the owner wrote, at a revision that it does not know of
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

	// One whose first write was cut off owns nothing either.
	r := &run{Options: Options{Name: "cut"}, book: "cut", store: natskv.New(conn.JetStream()), conn: conn}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
	defer cancel()
	if s, err := take(ctx, conn.JetStream(), r, func(error) {}); err == nil {
		_ = s.release(t.Context(), false)
	}
	if s, err := lease(t, conn, "cut"); errors.As(err, new(*InUseError)) {
		t.Errorf("after one that did not begin: %v", err)
	} else if err == nil {
		_ = s.release(t.Context(), false)
	}
}

func TestALeaseIsNotTakenFromOthers(t *testing.T) {
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
	// Clocks are wrong: that of the other machine is an hour slow, and then an hour fast.
	for _, wrong := range []time.Duration{-time.Hour, time.Hour} {
		change(func(rec *record) { rec.Owner.Beat = time.Now().Add(wrong) })
		var used *InUseError
		if _, err := lease(t, conn, "r"); !errors.As(err, &used) || used.Silent > time.Minute {
			t.Errorf("clock wrong by %s: got %v, want one that says the run is in use", wrong, err)
		}
	}
}
