package natsd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natsd"
)

// view is a bucket with a history of 1, as the view of the playbooks.
var view = jetstream.StreamConfig{Name: "KV_view", Subjects: []string{"$KV.view.>"}, MaxMsgsPerSubject: 1, AllowDirect: true}

// viewStore returns a directory with 200 writes to 40 keys of the view, some with headers.
func viewStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	withServer(t, dir, func(js jetstream.JetStream) {
		if _, err := js.CreateStream(t.Context(), view); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			var opts []jetstream.PublishOpt
			if i%3 == 0 {
				opts = append(opts, jetstream.WithMsgID(fmt.Sprint("id-", i)))
			}
			if _, err := js.Publish(t.Context(), fmt.Sprintf("$KV.view.k%d", i%40), fmt.Appendf(nil, "%0200d", i), opts...); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}

// writeView starts a server, creates the view if it is missing, and writes to 50 keys. It returns whether the view was missing.
func writeView(t *testing.T, dir string) (missing bool) {
	t.Helper()
	s, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m", Views: []string{view.Name}})
	ok(t, err)
	defer s.Close()
	nc, err := s.Connect()
	ok(t, err)
	js, err := jetstream.New(nc)
	ok(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	_, err = js.Stream(ctx, view.Name)
	if missing = errors.Is(err, jetstream.ErrStreamNotFound); missing {
		_, err = js.CreateStream(ctx, view)
	}
	ok(t, err)
	for i := range 50 {
		_, err := js.Publish(ctx, fmt.Sprintf("$KV.view.k%d", i), []byte("new"))
		ok(t, err)
	}
	st, err := js.Stream(ctx, view.Name)
	ok(t, err)
	if n := st.CachedInfo().State.Msgs; n != 50 {
		t.Errorf("got %d messages, want one for each of 50 keys", n)
	}
	return missing
}

// TestDamagedViewIsRemoved flips one byte at many positions of each file. A server that reads such a view does not answer any
// more as soon as the damaged message is replaced. A damaged message that was replaced before is no loss.
func TestDamagedViewIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	whole := viewStore(t)
	for name, removed := range map[string]int{"msgs/1.blk": 4, "meta.inf": 12, "meta.sum": 12, "msgs/index.db": 0} { // at least
		name := filepath.Join("jetstream", "$G", "streams", view.Name, name)
		data, err := os.ReadFile(filepath.Join(whole, name))
		ok(t, err)
		step := max(1, len(data)/12)
		n := 0
		for at := 0; at < len(data); at += step {
			if flipped(t, whole, name, data, at) {
				n++
			}
		}
		if n < removed || removed == 0 && n > 0 {
			t.Errorf("%s: the view was removed %d times, want at least %d", name, n, removed)
		}
	}
}

// flipped writes to a copy of the store with one flipped bit, and returns whether the view was removed.
func flipped(t *testing.T, whole, name string, data []byte, at int) (missing bool) {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.CopyFS(dir, os.DirFS(whole)))
	damaged := append([]byte(nil), data...)
	damaged[at] ^= 0x10
	ok(t, os.WriteFile(filepath.Join(dir, name), damaged, 0o600))
	missing = writeView(t, dir)
	all, err := natsd.ReadDamage(dir)
	ok(t, err)
	for _, d := range all {
		if !missing || !d.Repaired || d.Stream != view.Name || !strings.Contains(d.Text, "computed again") {
			t.Errorf("%s, byte %d: got damage %+v", name, at, d)
		}
	}
	if missing && len(all) != 1 {
		t.Errorf("%s, byte %d: got damage %v, want one", name, at, all)
	}
	return missing
}

// TestWholeViewStays: also after writes without a clean stop, and with messages that were replaced.
func TestWholeViewStays(t *testing.T) {
	t.Parallel()
	dir := viewStore(t)
	for range 3 {
		if writeView(t, dir) {
			t.Fatal("a view without damage was removed")
		}
	}
	running, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m", Views: []string{view.Name}})
	ok(t, err)
	defer running.Close()
	nc, err := running.Connect()
	ok(t, err)
	js, err := jetstream.New(nc)
	ok(t, err)
	for i := range 300 {
		_, err := js.Publish(t.Context(), fmt.Sprintf("$KV.view.k%d", i%50), fmt.Appendf(nil, "%0500d", i))
		ok(t, err)
	}
	killed := t.TempDir() // as after SIGKILL: what was written, without the index and checkpoint of a stop
	ok(t, os.CopyFS(filepath.Join(killed, "jetstream"), os.DirFS(filepath.Join(dir, "jetstream"))))
	if writeView(t, killed) {
		t.Error("a view without damage was removed after a crash")
	}
	if all, err := natsd.ReadDamage(killed); err != nil || len(all) > 0 {
		t.Errorf("got damage %v, %v", all, err)
	}
}

// TestOfflineViewStays checks that a view that the server knows and does not load stays: here, one of a newer server.
func TestOfflineViewStays(t *testing.T) {
	t.Parallel()
	dir := viewStore(t)
	stream := filepath.Join(dir, "jetstream", "$G", "streams", view.Name)
	settings, err := os.ReadFile(filepath.Join(stream, "meta.inf"))
	ok(t, err)
	var edited map[string]any
	ok(t, json.Unmarshal(settings, &edited))
	edited["metadata"] = map[string]string{"_nats.req.level": "999"}
	settings, err = json.Marshal(edited)
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(stream, "meta.inf"), settings, 0o600))
	ok(t, os.Remove(filepath.Join(stream, "meta.sum"))) // the start writes it
	s, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m", Views: []string{view.Name}})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "offline") {
		t.Errorf("got %v, want that the stream is offline", err)
	}
	if _, err := os.Stat(stream); err != nil {
		t.Errorf("the view: %v, want it in place", err)
	}
}
