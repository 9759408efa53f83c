package natsd_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natsd"
)

// store returns the directory of a server with 60 messages in EVENTS, of which consumer "role" has acknowledged 40.
func store(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data[1") // not a pattern
	withServer(t, dir, func(js jetstream.JetStream) {
		ctx := t.Context()
		if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, AllowDirect: true}); err != nil {
			t.Fatal(err)
		}
		c, err := js.CreateConsumer(ctx, "EVENTS", jetstream.ConsumerConfig{Durable: "role", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 7})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 60 {
			if _, err := js.Publish(ctx, "events.a", fmt.Appendf(nil, "%0200d", i)); err != nil {
				t.Fatal(err)
			}
		}
		batch, err := c.Fetch(40)
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if err := m.DoubleAck(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
	return dir
}

// withServer runs a server on a directory while fn runs.
func withServer(t *testing.T, dir string, fn func(jetstream.JetStream)) {
	t.Helper()
	s, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	fn(js)
}

func file(t *testing.T, dir, pattern string) string {
	t.Helper()
	all, err := fs.Glob(os.DirFS(dir), "jetstream/*/streams/EVENTS/"+pattern)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: got %v, %v", pattern, all, err)
	}
	return filepath.Join(dir, all[0])
}

// TestLateAcksAreNoDamage: the server may process acks, and remove messages of a work queue, after the last checkpoint. A
// second server without checkpoints stands in for that here.
func TestLateAcksAreNoDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const messages = 20
	consume := func(js jetstream.JetStream, ack bool) {
		c, err := js.Consumer(t.Context(), "QUEUE", "role")
		if err != nil {
			t.Fatal(err)
		}
		batch, err := c.Fetch(messages)
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if !ack {
				continue
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	withServer(t, dir, func(js jetstream.JetStream) {
		ctx := t.Context()
		cfg := jetstream.StreamConfig{Name: "QUEUE", Subjects: []string{"queue.>"}, Retention: jetstream.WorkQueuePolicy}
		if _, err := js.CreateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		role := jetstream.ConsumerConfig{Durable: "role", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 100 * time.Millisecond}
		if _, err := js.CreateConsumer(ctx, "QUEUE", role); err != nil {
			t.Fatal(err)
		}
		for range messages {
			if _, err := js.Publish(ctx, "queue.a", nil); err != nil {
				t.Fatal(err)
			}
		}
		consume(js, false)
	})
	plain, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	plain.Start()
	defer plain.Shutdown()
	nc, err := nats.Connect("", nats.InProcessServer(plain))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	consume(js, true)
	plain.Shutdown()
	plain.WaitForShutdown()
	withServer(t, dir, func(jetstream.JetStream) {})
	if found, err := natsd.ReadDamage(dir); err != nil || len(found) > 0 {
		t.Errorf("got %v, %v, want no damage", found, err)
	}
}

// TestDamageIsKeptUntilAccepted: the server itself reports a loss only at the start that detects it.
func TestDamageIsKeptUntilAccepted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage  func(t *testing.T, dir string)
		numbers []string // of messages and sequences
	}{
		"a flipped byte": {func(t *testing.T, dir string) {
			data, err := os.ReadFile(file(t, dir, "msgs/1.blk"))
			ok(t, err)
			data[len(data)/60*30] ^= 1 // the length of the record in the middle
			ok(t, os.WriteFile(file(t, dir, "msgs/1.blk"), data, 0o600))
		}, []string{"30", "31", "60"}},
		"the end of the file and the index of the server": {func(t *testing.T, dir string) {
			info, err := os.Stat(file(t, dir, "msgs/1.blk"))
			ok(t, err)
			ok(t, os.Truncate(file(t, dir, "msgs/1.blk"), info.Size()/2))
			ok(t, os.Remove(file(t, dir, "msgs/index.db")))
		}, []string{"30", "60"}},
		"a removed file": {func(t *testing.T, dir string) { ok(t, os.Remove(file(t, dir, "msgs/1.blk"))) }, []string{"60", "1"}},
		"the whole stream": {func(t *testing.T, dir string) {
			ok(t, os.RemoveAll(filepath.Dir(filepath.Dir(file(t, dir, "msgs/1.blk")))))
		}, []string{"60"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := store(t)
			if all, err := natsd.ReadDamage(dir); err != nil || len(all) > 0 {
				t.Fatalf("before: got %v, %v", all, err)
			}
			c.damage(t, dir)
			for range 3 { // also after the server does not report it any more
				withServer(t, dir, func(jetstream.JetStream) {})
			}
			all, err := natsd.ReadDamage(dir)
			ok(t, err)
			if len(all) == 0 || all[0].Stream != "EVENTS" || all[0].Repaired {
				t.Fatalf("got %v, want lost messages of EVENTS", all)
			}
			words := strings.FieldsFunc(all[0].Text, func(r rune) bool { return !unicode.IsDigit(r) })
			for _, n := range c.numbers {
				if !slices.Contains(words, n) {
					t.Errorf("got %v, want it to name %s", all, n)
				}
			}
			ok(t, natsd.AcceptDamage(dir, "OTHER"))
			if kept, err := natsd.ReadDamage(dir); err != nil || len(kept) != len(all) {
				t.Errorf("accepted that of another stream: got %v, %v", kept, err)
			}
			ok(t, natsd.AcceptDamage(dir, "OTHER", "EVENTS"))
			withServer(t, dir, func(jetstream.JetStream) {})
			if all, err := natsd.ReadDamage(dir); err != nil || len(all) > 0 {
				t.Errorf("accepted: got %v, %v", all, err)
			}
		})
	}
}

// TestDamagedConsumerIsRecreated checks that it continues after the acknowledged messages, with the same
// configuration.
func TestDamagedConsumerIsRecreated(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, dir string){
		"garbage in its state": func(t *testing.T, dir string) {
			ok(t, os.WriteFile(file(t, dir, "obs/role/o.dat"), bytes.Repeat([]byte{0xa5}, 40), 0o600))
		},
		"a state that is cut short": func(t *testing.T, dir string) { ok(t, os.Truncate(file(t, dir, "obs/role/o.dat"), 3)) },
		"no state":                  func(t *testing.T, dir string) { ok(t, os.Remove(file(t, dir, "obs/role/o.dat"))) },
		"garbage in its settings": func(t *testing.T, dir string) {
			ok(t, os.WriteFile(file(t, dir, "obs/role/meta.inf"), []byte("{"), 0o600))
		},
		"no files at all": func(t *testing.T, dir string) {
			ok(t, os.RemoveAll(filepath.Dir(file(t, dir, "obs/role/o.dat"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := store(t)
			damage(t, dir)
			withServer(t, dir, func(js jetstream.JetStream) {
				c, err := js.Consumer(t.Context(), "EVENTS", "role")
				ok(t, err)
				batch, err := c.Fetch(60, jetstream.FetchMaxWait(1e9))
				ok(t, err)
				n := 0
				for m := range batch.Messages() {
					md, err := m.Metadata()
					ok(t, err)
					if n++; md.Sequence.Stream != uint64(40+n) {
						t.Fatalf("delivered %d as number %d, want those after 40", md.Sequence.Stream, n)
					}
				}
				if n != 20 || c.CachedInfo().Config.MaxDeliver != 7 {
					t.Errorf("delivered %d messages with %+v, want 20", n, c.CachedInfo().Config)
				}
			})
			all, err := natsd.ReadDamage(dir)
			ok(t, err)
			if len(all) != 1 || !all[0].Repaired || !strings.Contains(all[0].Text, "role") || !strings.Contains(all[0].Text, "40") {
				t.Errorf("got %v, want the consumer and where it continues", all)
			}
		})
	}
}

// TestDamageThatCannotBeRecorded: the start fails, and a later one records the loss.
func TestDamageThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	dir := store(t)
	ok(t, os.Remove(file(t, dir, "msgs/1.blk")))
	obstacle := filepath.Join(dir, "debrief.damage")
	ok(t, os.Mkdir(obstacle, 0o700))
	if s, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m"}); err == nil {
		s.Close()
		t.Error("started without a record of the loss")
	}
	ok(t, os.Remove(obstacle))
	withServer(t, dir, func(jetstream.JetStream) {})
	if all, err := natsd.ReadDamage(dir); err != nil || len(all) != 1 || all[0].Stream != "EVENTS" || all[0].Repaired {
		t.Errorf("got %v, %v, want the lost messages of EVENTS", all, err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
