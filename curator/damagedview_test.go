package curator_test

import (
	"os"
	"path/filepath"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
)

// onServer runs a curator on a server with a directory while fn runs.
func onServer(t *testing.T, dir string, fn func(*harness)) {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m", Views: []string{"KV_" + events.BucketPlaybook}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{T: t, conn: conn, nc: nc, store: deltalog.New(conn.JetStream())}
	stop := h.run(nil)
	defer stop()
	fn(h)
}

// TestDamagedViewIsComputedAgain flips one byte in the stored view of two playbooks. At the next start edits work, and both
// views are what their logs fold to.
func TestDamagedViewIsComputedAgain(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	onServer(t, whole, func(h *harness) {
		for range 3 {
			h.edit("b", add("an edit of "+events.ShortID(events.NewID())))
		}
		h.edit("other", add("a bullet that nothing changes"))
		h.whole("b")
		h.whole("other")
	})
	name := filepath.Join("jetstream", "$G", "streams", "KV_"+events.BucketPlaybook, "msgs", "1.blk")
	data, err := os.ReadFile(filepath.Join(whole, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		dir := t.TempDir()
		damaged := append([]byte(nil), data...)
		damaged[len(data)*(2*i+1)/8] ^= 1
		for _, err := range []error{os.CopyFS(dir, os.DirFS(whole)), os.WriteFile(filepath.Join(dir, name), damaged, 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		onServer(t, dir, func(h *harness) {
			h.whole("other") // the first write to the new view
			if n := h.whole("b").Len(); n != 5 {
				t.Errorf("got %d bullets, want 5", n)
			}
		})
	}
}
