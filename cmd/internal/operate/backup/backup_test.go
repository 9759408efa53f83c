package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// TestBackupDuringOverwrites: snapshots lack values that are overwritten during the copy. The state of runs must be
// complete, and other missing values are not an error.
func TestBackupDuringOverwrites(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const keys = 7
	conn, _ := bustest.Open(t, bus.Policy{})
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for _, bucket := range []string{events.BucketRuns, events.BucketVectors} {
		kv, err := conn.JetStream().KeyValue(ctx, bucket)
		if err != nil {
			t.Fatal(err)
		}
		put := func(i int) {
			if _, err := kv.Put(ctx, fmt.Sprint("k", i%keys), fmt.Append(nil, i)); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
		for i := range keys {
			put(i)
		}
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				put(i)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	defer writers.Wait()
	defer cancel()

	other, _ := bustest.Open(t, bus.Policy{})
	lacking := 0
	for range 20 {
		m, err := Verify(create(t, conn))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Restore(ctx, other, 1, true); err != nil {
			t.Fatal(err)
		}
		if n := held(t, other, events.BucketRuns); n != keys {
			t.Errorf("of %d runs, the state of %d came back", keys, n)
		}
		lacking += keys - held(t, other, events.BucketVectors)
	}
	t.Logf("of %d vectors %d were lacking", 20*keys, lacking)
}

// TestBackupHasSmallBlocks: a server that syncs each message gives up a restore whose blocks have too many messages. A disk that syncs in no
// time hides that; the long form of TestOneOfManyUsersIsErased shows it.
func TestBackupHasSmallBlocks(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	kv, err := conn.JetStream().KeyValue(t.Context(), events.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	const size = 100_000
	if _, err := kv.Put(t.Context(), "k", bytes.Repeat([]byte("v"), size)); err != nil {
		t.Fatal(err)
	}
	data, err := jsm.SnapshotDataPath(filepath.Join(create(t, conn), "KV_"+events.BucketRuns))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(io.Discard, s2.NewReader(f, s2.ReaderMaxBlockSize(blockSize))); err != nil || n < size {
		t.Errorf("read %d bytes, error %v; want at least %d in blocks of at most %d", n, err, size, blockSize)
	}
}

// TestInterruptedRestoreLeavesMark: a program that starts on a part of the streams would give sequences again that the log of the playbooks
// refers to.
func TestInterruptedRestoreLeavesMark(t *testing.T) {
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	m, err := Verify(create(t, conn))
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.CheckRestored(t.Context(), conn.JetStream()); err != nil {
		t.Fatalf("before the restore: %v", err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	if _, err := nc.Subscribe("$JS.API.STREAM.RESTORE."+events.StreamReflections, func(*nats.Msg) { interrupt() }); err != nil {
		t.Fatal(err)
	}
	var incomplete *IncompleteError
	if err := m.Restore(interrupted, conn, 1, true); !errors.Is(err, context.Canceled) || !errors.As(err, &incomplete) {
		t.Fatalf("got error %v, want the interruption", err)
	}
	if err := bus.CheckRestored(t.Context(), conn.JetStream()); !errors.Is(err, bus.ErrRestoring) {
		t.Errorf("after the interruption: got error %v, want %v", err, bus.ErrRestoring)
	}
	if err := m.Restore(t.Context(), conn, 1, true); err != nil {
		t.Fatal(err)
	}
	if err := bus.CheckRestored(t.Context(), conn.JetStream()); err != nil {
		t.Errorf("after the second restore: %v", err)
	}
}

// create creates a backup and returns its directory.
// TestRestoreEndsAfterRefusals: the server refuses a snapshot that it cannot read. The restore is repeated, and then fails with the
// server's reason.
func TestRestoreEndsAfterRefusals(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	kv, err := conn.JetStream().KeyValue(t.Context(), events.BucketRuns)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	stream := "KV_" + events.BucketRuns
	m, err := Verify(create(t, conn))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, stream, jsm.SnapshotDataFile), []byte("not a snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	requests, err := nc.SubscribeSync("$JS.API.STREAM.RESTORE." + stream)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Restore(t.Context(), conn, 1, true); !jsm.IsNatsError(err, codeRestoreFailed) {
		t.Fatalf("got error %v, want the refusal of the server", err)
	}
	for i := range restoreAttempts {
		if _, err := requests.NextMsg(5 * time.Second); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	if n, _, err := requests.Pending(); n != 0 || err != nil {
		t.Errorf("%d requests after the last attempt (%v)", n, err)
	}
	if _, err := conn.JetStream().Stream(t.Context(), stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("after the failure the stream exists: %v", err)
	}
}

func create(t *testing.T, conn *bus.Conn) string {
	t.Helper()
	d, err := NewDir(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Create(t.Context(), conn, "test"); err != nil {
		t.Fatal(err)
	}
	return d.Name
}

func held(t *testing.T, conn *bus.Conn, bucket string) int {
	t.Helper()
	kv, err := conn.JetStream().KeyValue(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	lister, err := kv.ListKeys(t.Context(), jetstream.MetaOnly())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range lister.Keys() {
		n++
	}
	return n
}

// TestRefusedSnapshotError: the error returns at once, without the server's timeout.
func TestRefusedSnapshotError(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"$JS.API.STREAM.SNAPSHOT.>"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(20 * time.Second) {
		t.Fatal("not ready")
	}
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo("u", "p"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	conn, err := bus.Open(t.Context(), nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDir(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	began := time.Now()
	_, err = d.Create(t.Context(), conn, "test")
	if took := time.Since(began); took > serverTimeout/2 {
		t.Errorf("returned after %s", took)
	}
	var refused *bus.DeniedError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Subject, "$JS.API.STREAM.SNAPSHOT.") {
		t.Errorf("got %v, want the subject that was refused", err)
	}
}

func TestRestoredStreamMatches(t *testing.T) {
	t.Parallel()
	backup := Stream{Messages: 90, First: 11, Last: 110, Removed: 3}
	age, ttl := api.StreamConfig{MaxAge: time.Hour}, api.StreamConfig{AllowMsgTTL: true}
	for name, c := range map[string]struct {
		config                api.StreamConfig
		messages, first, last uint64
		want                  bool
	}{
		"all":                               {messages: 90, first: 11, last: 110, want: true},
		"removed during the snapshot":       {messages: 87, first: 14, last: 110, want: true},
		"lost":                              {messages: 86, first: 14, last: 110},
		"lost at the end":                   {config: age, messages: 89, first: 11, last: 109},
		"expired":                           {config: age, messages: 70, first: 31, last: 110, want: true},
		"all expired":                       {config: age, messages: 0, first: 111, last: 110, want: true},
		"expired, and others lost":          {config: age, messages: 66, first: 31, last: 110},
		"too many":                          {config: age, messages: 91, first: 11, last: 110},
		"expired by the limits of messages": {config: ttl, messages: 50, first: 11, last: 110, want: true},
	} {
		if got := backup.matches(&api.StreamState{Msgs: c.messages, FirstSeq: c.first, LastSeq: c.last}, &c.config); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
