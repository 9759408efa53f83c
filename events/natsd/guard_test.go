package natsd

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// disk simulates a disk. The test sets its free space, in MiB.
type disk struct{ free atomic.Uint64 }

func (d *disk) space(string) (free, size uint64, err error) { return d.free.Load() << 20, 1 << 30, nil }

// states are the states that Watch reported.
func states(s *Server) chan error {
	told := make(chan error, 100)
	s.Watch(func(why error) { told <- why })
	<-told // the state at the call of Watch
	return told
}

func becomes(t *testing.T, told chan error, closed bool) error {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		select {
		case why := <-told:
			if (why != nil) == closed {
				return why
			}
		case <-deadline:
			t.Fatalf("timeout: no notification with closed = %v", closed)
		}
	}
}

func TestStoreClosesBeforeDiskIsFull(t *testing.T) {
	t.Parallel()
	d := new(disk)
	d.free.Store(500)
	s, err := startWith(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}, d.space)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	inside, err := s.Connect(nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	outside, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(outside.Close)
	publish := func(nc *nats.Conn) error {
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = js.Publish(ctx, "s", []byte("x"))
		return err
	}
	js, err := jetstream.New(inside)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	stored := uint64(0)
	taken := func() {
		t.Helper()
		for _, nc := range []*nats.Conn{inside, outside} {
			if err := publish(nc); err != nil {
				t.Fatalf("publish to the open store: %v", err)
			}
			stored++
		}
	}
	refused := func() {
		t.Helper()
		for _, nc := range []*nats.Conn{inside, outside} {
			var api *jetstream.APIError
			if err := publish(nc); !errors.As(err, &api) || api.ErrorCode != 10002 {
				t.Errorf("publish to the closed store: got %v, want the error 10002 of the server", err)
			}
		}
	}
	told := states(s)
	taken()

	d.free.Store(63)
	closed := (*closedError)(nil)
	if why := becomes(t, told, true); !errors.As(why, &closed) || closed.Free != 63<<20 || closed.Reserve != 64<<20 || closed.Err != nil {
		t.Errorf("got %#v, want what is free and what is reserved", why)
	}
	refused()
	before := s.srv.Load()
	d.free.Store(500)
	becomes(t, told, false)
	taken()
	if s.srv.Load() != before {
		t.Error("the server was started anew though no write had failed")
	}

	// A write fails: the store is closed until there is free space, and then another server runs.
	d.free.Store(0)
	s.log.Errorf("Filestore [S] Critical write error: %v", &fs.PathError{Op: "write", Path: "1.blk", Err: syscall.ENOSPC})
	for why := becomes(t, told, true); !errors.Is(why, syscall.ENOSPC); why = becomes(t, told, true) {
	}
	refused()
	d.free.Store(500)
	becomes(t, told, false)
	if s.srv.Load() == before {
		t.Error("the server was not started anew after a write had failed")
	}
	for _, nc := range []*nats.Conn{inside, outside} {
		for deadline := time.Now().Add(30 * time.Second); nc.FlushTimeout(time.Second) != nil; {
			if time.Now().After(deadline) {
				t.Fatal("a connection never came back")
			}
		}
	}
	taken()
	i, err := stream.Info(t.Context())
	if err != nil || i.State.Msgs != stored {
		t.Errorf("got %d messages and %v, want the %d that were acknowledged", i.State.Msgs, err, stored)
	}
}

func TestReserve(t *testing.T) {
	t.Parallel()
	for size, want := range map[uint64]uint64{16 << 20: 2 << 20, 512 << 20: 64 << 20, 1 << 40: 64 << 20, 0: 0} {
		if got := Reserve(size); got != want {
			t.Errorf("a disk of %d bytes: got a reserve of %d, want %d", size, got, want)
		}
	}
}
