package blob_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// lagging is a connection to a cluster with a replica that is behind: the first reads do not find an object.
type lagging struct {
	jetstream.JetStream
	misses atomic.Int32
}

func (l *lagging) ObjectStore(ctx context.Context, bucket string) (jetstream.ObjectStore, error) {
	store, err := l.JetStream.ObjectStore(ctx, bucket)
	return &laggingStore{store, l}, err
}

type laggingStore struct {
	jetstream.ObjectStore
	of *lagging
}

func (s *laggingStore) GetInfo(ctx context.Context, name string, opts ...jetstream.GetObjectInfoOpt) (*jetstream.ObjectInfo, error) {
	if s.of.misses.Add(-1) >= 0 {
		return nil, jetstream.ErrObjectNotFound
	}
	return s.ObjectStore.GetInfo(ctx, name, opts...)
}

// TestBlobOfALaggingReplicaHasNotExpired: a blob that only the leader has yet is read again, and one that no replica has is expired.
func TestBlobOfALaggingReplicaHasNotExpired(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	name, err := blob.New(conn.JetStream()).Put(t.Context(), "", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	js := &lagging{JetStream: conn.JetStream()}
	js.misses.Store(3)
	s := blob.New(js)
	if data, err := s.Get(t.Context(), name); err != nil || string(data) != "content" {
		t.Errorf("got %q and error %v", data, err)
	}
	js.misses.Store(1)
	if _, err := s.Get(t.Context(), strings.Repeat("ab", 32)); !errors.Is(err, blob.ErrExpired) {
		t.Errorf("got %v, want %v", err, blob.ErrExpired)
	}
}
