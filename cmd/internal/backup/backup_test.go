package backup

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestValuesThatAreOverwrittenMeanwhile: the server's snapshots lack values that were overwritten while they were taken.
// No run may lose its state by that, and what else is missing is not held for damage.
func TestValuesThatAreOverwrittenMeanwhile(t *testing.T) {
	t.Parallel()
	const keys = 7
	conn, _ := bustest.Open(t, bus.Policy{})
	only := []string{"KV_" + events.BucketRuns, "KV_" + events.BucketVectors}
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
				time.Sleep(time.Millisecond)
			}
		})
	}
	defer writers.Wait()
	defer cancel()

	other, _ := bustest.Open(t, bus.Policy{})
	lacking := 0
	for range 20 {
		var file bytes.Buffer
		if _, err := Create(ctx, conn, only, "test", &file, nil); err != nil {
			t.Fatal(err)
		}
		m, err := Verify(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := Restore(ctx, other, m, bytes.NewReader(file.Bytes()), 1, true, nil); err != nil {
			t.Fatal(err)
		}
		if n := held(t, other, events.BucketRuns); n != keys {
			t.Errorf("of %d runs, the state of %d came back", keys, n)
		}
		lacking += keys - held(t, other, events.BucketVectors)
	}
	t.Logf("of %d vectors %d were lacking", 20*keys, lacking)
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
