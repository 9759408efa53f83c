package curator

import (
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestIdleBookIsUnloaded also checks that the sweep still repairs the view of the book.
func TestIdleBookIsUnloaded(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	store := deltalog.New(conn.JetStream())
	d := &worker{Curator: New(nil, Config{}), conn: conn, store: store, books: map[playbook.Book]*book{}}
	w, err := store.Writer(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		if _, err := w.Commit(t.Context(), func(s deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", i+1), Section: "others", Content: string(events.NewID())}}}}, nil
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first look compares everything, the next ones only the ends
			d.sweepBook(t.Context(), d.book("b"))
			if b := d.book("b"); b.writer != nil || !b.viewChecked {
				t.Fatalf("version %d: in memory: %v, sound: %v", i+1, b.writer != nil, b.viewChecked)
			}
			if ok, err := store.IsViewCurrent(t.Context(), "b"); !ok || err != nil {
				t.Fatalf("version %d: the view was left behind (%v)", i+1, err)
			}
		}
	}
	if open := d.idleOpenBooks(); len(open) != 0 {
		t.Errorf("in memory: %v", open)
	}
}
