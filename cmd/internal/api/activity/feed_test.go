package activity

import (
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestNoDeltas: a gateway needs no stream of deltas. It may start before the curator, or without one.
func TestNoDeltas(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	f := New(conn, 0)
	if err := conn.JetStream().DeleteStream(t.Context(), events.StreamDeltas); err != nil {
		t.Fatal(err)
	}
	if err := f.readAll(t.Context()); err != nil {
		t.Errorf("read changes: %v", err)
	}
	if err := f.sample(t.Context()); err != nil {
		t.Errorf("sample roles: %v", err)
	}
}
