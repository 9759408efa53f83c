package bus

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natsd"
)

// TestCacheMemoryIsBounded: contexts above the limit of their bucket cost the server no memory. It does not run in
// parallel, because other tests allocate memory too.
func TestCacheMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("stores 100,000 contexts")
	}
	const maxContexts = 250_000
	c := open(t, serve(t, natsd.Config{}), fastPolicy)
	s, err := c.js.Stream(t.Context(), "KV_"+events.BucketContexts)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxMsgs != maxContexts {
		t.Fatalf("the bucket of contexts holds %d, want %d at most", cfg.MaxMsgs, maxContexts)
	}
	const bound = maxContexts / 5 // the full number takes a minute
	cfg.MaxMsgs = bound
	if s, err = c.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(c.nc, jetstream.WithPublishAsyncMaxPending(1024))
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	store := func(n int) uint64 {
		t.Helper()
		for range n {
			stored++
			if _, err := js.PublishAsync(fmt.Sprintf("$KV.%s.context-%d", events.BucketContexts, stored), []byte("x"), jetstream.WithStallWait(waitLimit)); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
		var m runtime.MemStats
		runtime.GC() // twice: the second run frees the server's pools
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	empty := store(1)
	full := store(bound)
	over := store(bound)
	perKey := float64(full-empty) / bound
	t.Logf("%d contexts: %.1f MB, %.0f bytes each; as many again: %.1f MB", bound, float64(full-empty)/1e6, perKey, (float64(over)-float64(full))/1e6)
	if perKey > 600 {
		t.Errorf("got %.0f bytes of memory for a context, want at most 600", perKey)
	}
	if grown := float64(over) - float64(full); grown > 0.5*float64(full-empty) {
		t.Errorf("memory grew by %.1f MB past the bound, want at most half of the %.1f MB under it", grown/1e6, float64(full-empty)/1e6)
	}
	i, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i.State.Msgs != bound {
		t.Errorf("got %d contexts, want %d: the newest", i.State.Msgs, bound)
	}
}
