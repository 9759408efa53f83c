package index

import (
	"slices"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// TestNoDeltas: a gateway needs no stream of deltas. It may start before the curator, or without one.
func TestNoDeltas(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	x := New(conn, nil)
	if err := conn.JetStream().DeleteStream(t.Context(), events.StreamDeltas); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Logs.followAll(t.Context(), 0); err != nil {
		t.Errorf("read changes: %v", err)
	}
	if _, err := x.Activity.sample(t.Context()); err != nil {
		t.Errorf("sample roles: %v", err)
	}
}

// TestOverlappingReaders checks that two readers of one log add each of its changes once, in the order of their times.
func TestOverlappingReaders(t *testing.T) {
	t.Parallel()
	a := newActivity(nil)
	for _, r := range []struct {
		book         playbook.Book
		seq, seconds uint64
	}{{"main", 1, 1}, {"main", 3, 5}, {"other", 2, 3}, {"main", 1, 1}, {"main", 3, 5}, {"main", 4, 6}} {
		a.add(r.book, &deltalog.Record{Seq: r.seq, Delta: playbook.Delta{Version: r.seq, Time: time.Unix(int64(r.seconds), 0)}})
	}
	var versions []uint64
	for _, c := range a.State().Changes {
		versions = append(versions, c.Version)
	}
	if want := []uint64{1, 2, 3, 4}; !slices.Equal(versions, want) {
		t.Errorf("got versions %v, want %v", versions, want)
	}
}

// TestForgottenChangesWakeReaders checks that a page loads again when the log of a playbook was replaced, also by an empty one.
func TestForgottenChangesWakeReaders(t *testing.T) {
	t.Parallel()
	a := newActivity(nil)
	a.add("main", &deltalog.Record{Seq: 1})
	before := a.State()
	a.forget("main")
	select {
	case <-before.Changed:
	default:
		t.Error("got no signal of the change")
	}
}
