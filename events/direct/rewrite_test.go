package direct_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/direct"
	"debrief/events/natsd"
)

// start starts a server with a store in dir.
func start(t *testing.T, dir string) jetstream.JetStream {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Dir: dir, Sync: "1m"})
	check(t, err)
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	check(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	check(t, err)
	return js
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filesWith returns the files below dir that contain a text, and the bytes of all files.
func filesWith(t *testing.T, dir, text string) (found []string, size int64) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		size += int64(len(data))
		if bytes.Contains(data, []byte(text)) {
			found = append(found, strings.TrimPrefix(path, dir))
		}
		return err
	}))
	return found, size
}

func bucket(history int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_b", Subjects: []string{"$KV.b.>"}, MaxMsgsPerSubject: history, DenyDelete: true, AllowDirect: true, AllowMsgTTL: true,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
	}
}

// TestReplacedBytesVanish does it twice, because the first run leaves marks of removed messages behind.
func TestReplacedBytesVanish(t *testing.T) {
	t.Parallel()
	for _, history := range []int64{1, 20} {
		t.Run(fmt.Sprint("history ", history), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			js := start(t, dir)
			_, err := js.CreateStream(t.Context(), bucket(history))
			check(t, err)
			for _, canary := range []string{"first-canary-of-a-person", "second-canary-of-a-person"} {
				fillBucket(t, js, canary)
				removeCanaries(t, js, history)
				before := values(t, js)
				if found, _ := filesWith(t, dir, canary); len(found) == 0 {
					t.Fatal("control: no file contains the canary before the rewrite")
				}
				began := time.Now()
				copied, err := direct.Rewrite(t.Context(), js, "KV_b")
				check(t, err)
				found, size := filesWith(t, dir, canary)
				t.Logf("copied %d messages in %v; the files have %d bytes", copied, time.Since(began), size)
				if len(found) > 0 {
					t.Errorf("files %v still contain the %s", found, canary)
				}
				if after := values(t, js); after != before {
					t.Errorf("the values have changed: got %d bytes, want %d", len(after), len(before))
				}
			}
		})
	}
}

// fillBucket puts several values into 200 keys. Some of the keys have a canary.
func fillBucket(t *testing.T, js jetstream.JetStream, canary string) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), "b")
	check(t, err)
	for i := range 500 {
		text := strings.Repeat(fmt.Sprint("value ", i, " "), 20)
		if i%50 == 7 {
			text += canary
		}
		_, err := kv.Put(t.Context(), fmt.Sprint("k.", i%200), []byte(text))
		check(t, err)
	}
}

// removeCanaries removes the keys with a canary.
func removeCanaries(t *testing.T, js jetstream.JetStream, history int64) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), "b")
	check(t, err)
	stream, err := js.Stream(t.Context(), "KV_b")
	check(t, err)
	for i := 7; i < 200; i += 50 {
		if history > 1 {
			check(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(fmt.Sprint("$KV.b.k.", i))))
		} else {
			check(t, kv.Delete(t.Context(), fmt.Sprint("k.", i)))
		}
	}
}

// values returns all values of the bucket in the order of their keys and their history.
func values(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), "b")
	check(t, err)
	var all strings.Builder
	for i := range 200 {
		entries, err := kv.History(t.Context(), fmt.Sprint("k.", i))
		if err != nil {
			continue
		}
		for _, e := range entries {
			fmt.Fprintf(&all, "%s %v %q\n", e.Key(), e.Operation(), e.Value())
		}
	}
	return all.String()
}

func TestOrderIsRestoredAfterAnInterruptedRun(t *testing.T) {
	t.Parallel()
	js := start(t, t.TempDir())
	_, err := js.CreateStream(t.Context(), bucket(20))
	check(t, err)
	for _, v := range []string{"one", "two", "three"} {
		_, err := js.Publish(t.Context(), "$KV.b.k.1", []byte(v))
		check(t, err)
	}
	// As left by a run that ended after its first copy, before another writer.
	copied := &nats.Msg{Subject: "$KV.b.k.1", Data: []byte("one"), Header: nats.Header{"Debrief-Copied": {"1"}}}
	_, err = js.PublishMsg(t.Context(), copied)
	check(t, err)
	_, err = js.Publish(t.Context(), "$KV.b.k.1", []byte("four"))
	check(t, err)
	_, err = direct.Rewrite(t.Context(), js, "KV_b")
	check(t, err)
	kv, err := js.KeyValue(t.Context(), "b")
	check(t, err)
	entries, err := kv.History(t.Context(), "k.1")
	check(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, string(e.Value()))
	}
	if want := "[one two three four]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestSeveralAtOnce rewrites a stream from several places at once, as erasures do that run at once. Each ends, and each subject keeps its
// messages in their order.
func TestSeveralAtOnce(t *testing.T) {
	t.Parallel()
	js := start(t, t.TempDir())
	_, err := js.CreateStream(t.Context(), bucket(60))
	check(t, err)
	const subjects, messages = 3, 12
	for i := range messages {
		for k := range subjects {
			_, err := js.Publish(t.Context(), fmt.Sprint("$KV.b.k.", k), fmt.Append(nil, i))
			check(t, err)
		}
	}
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			if _, err := direct.Rewrite(t.Context(), js, "KV_b"); err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	kv, err := js.KeyValue(t.Context(), "b")
	check(t, err)
	for k := range subjects {
		entries, err := kv.History(t.Context(), fmt.Sprint("k.", k))
		check(t, err)
		for i, e := range entries {
			if len(entries) != messages || string(e.Value()) != fmt.Sprint(i) {
				t.Errorf("subject %d: got value %q at place %d of %d, want %d of %d", k, e.Value(), i, len(entries), i, messages)
			}
		}
	}
}

// contended publishes another message to the subject before the second copy.
type contended struct {
	jetstream.JetStream
	copies *int
}

func (c contended) PublishMsg(ctx context.Context, msg *nats.Msg, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if msg.Header.Get("Debrief-Copied") != "" {
		*c.copies++
		if *c.copies == 2 {
			if _, err := c.Publish(ctx, msg.Subject, []byte("new")); err != nil {
				return nil, err
			}
		}
	}
	return c.JetStream.PublishMsg(ctx, msg, o...)
}

// TestCopiesOfAnEndedAttemptDoNotCount: another writer ends the first attempt to copy a subject.
func TestCopiesOfAnEndedAttemptDoNotCount(t *testing.T) {
	t.Parallel()
	js := start(t, t.TempDir())
	_, err := js.CreateStream(t.Context(), bucket(60))
	check(t, err)
	for i := range 3 {
		_, err := js.Publish(t.Context(), "$KV.b.k", fmt.Append(nil, i))
		check(t, err)
	}
	copied, err := direct.Rewrite(t.Context(), contended{js, new(int)}, "KV_b")
	check(t, err)
	if copied != 4 {
		t.Errorf("got %d copies, want 4", copied)
	}
}

func TestTimeToLiveKeepsItsEnd(t *testing.T) {
	t.Parallel()
	js := start(t, t.TempDir())
	_, err := js.CreateStream(t.Context(), bucket(1))
	check(t, err)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.b.k.1", Data: []byte("v")}, jetstream.WithMsgTTL(time.Hour))
	check(t, err)
	_, err = direct.Rewrite(t.Context(), js, "KV_b")
	check(t, err)
	stream, err := js.Stream(t.Context(), "KV_b")
	check(t, err)
	m, err := stream.GetLastMsgForSubject(t.Context(), "$KV.b.k.1")
	check(t, err)
	left, err := time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader))
	if err != nil || left > time.Hour || left < 50*time.Minute {
		t.Errorf("time to live: got %q (%v), want at most 1h", m.Header.Get(jetstream.MsgTTLHeader), err)
	}
}

func TestOnlyBucketsAreRewritten(t *testing.T) {
	t.Parallel()
	js := start(t, t.TempDir())
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}, Storage: jetstream.FileStorage})
	check(t, err)
	if _, err := direct.Rewrite(t.Context(), js, "S"); err == nil || !strings.Contains(err.Error(), "pattern of subjects") {
		t.Errorf("a stream without a limit for each subject: got %v, want an error", err)
	}
}
