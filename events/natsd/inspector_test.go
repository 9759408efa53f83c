package natsd

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// TestLoadedFilesStay: only what the server has not loaded is moved aside. A push consumer is loaded, and a request without an answer
// tells nothing.
func TestLoadedFilesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	in := s.inspector
	stream, err := in.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "pull"}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CreatePushConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "push", DeliverSubject: "d"}); err != nil {
		t.Fatal(err)
	}
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"answered": t.Context(), "expired": expired} {
		err := in.recreate(ctx, stream, stream.CachedInfo(), nil, false)
		_, viewErr := in.dropIfDamaged(ctx, "S", &checkpoint{})
		if want := ctx.Err() != nil; (err != nil) != want || (viewErr != nil) != want {
			t.Errorf("%s: got %v and %v", name, err, viewErr)
		}
	}
	if aside, err := filepath.Glob(filepath.Join(dir, asideName, "*")); err != nil || len(aside) > 0 {
		t.Errorf("moved aside %v, %v, want nothing", aside, err)
	}
}
