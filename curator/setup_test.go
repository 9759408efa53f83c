package curator

import (
	"testing"

	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// openWorker returns a worker without a model, on a new server. It handles what a test gives it.
func openWorker(t testing.TB) *worker {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	return &worker{Curator: bustest.Must(New(nil, Config{})), conn: conn, store: deltalog.New(conn.JetStream()), books: map[playbook.Book]*book{}}
}

// AddDeltas adds deltas to the log of a playbook as another Curator would. It writes no view.
func AddDeltas(t testing.TB, store *deltalog.Store, b playbook.Book, deltas ...playbook.Delta) {
	t.Helper()
	w, err := store.Writer(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deltas {
		if _, err := w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{&d}, nil }); err != nil {
			t.Fatal(err)
		}
	}
}
