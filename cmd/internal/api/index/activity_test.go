package index

import (
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
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
