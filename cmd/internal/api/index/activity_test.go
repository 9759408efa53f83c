package index

import (
	"slices"
	"testing"

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

// TestOverlappingCollectors checks that two readers of one log add each of its changes once, in either order.
func TestOverlappingCollectors(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string][2]uint64{"the shorter first": {2, 3}, "the longer first": {3, 2}, "the same": {3, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newActivity(nil)
			collectors := [2]*changeCollector{a.collector("main"), a.collector("main")}
			for i, c := range collectors {
				for seq := uint64(1); seq <= ends[i]; seq++ {
					if err := c.add(&deltalog.Record{Seq: seq, Delta: playbook.Delta{Version: seq}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, c := range collectors {
				a.addChanges(c)
			}
			var versions []uint64
			for _, c := range a.State().Changes {
				versions = append(versions, c.Version)
			}
			if want := []uint64{1, 2, 3}; !slices.Equal(versions, want) {
				t.Errorf("got versions %v, want %v", versions, want)
			}
		})
	}
}
