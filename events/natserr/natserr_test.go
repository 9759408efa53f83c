package natserr

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestIsConflict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{nats.ErrTimeout, false},
		{&jetstream.APIError{Code: 400, ErrorCode: 10071}, true},
		{fmt.Errorf("publish: %w", &jetstream.APIError{Code: 400, ErrorCode: 10164}), true},
		{&jetstream.APIError{Code: 400, ErrorCode: 10070}, false},
	} {
		if got := IsConflict(test.err); got != test.want {
			t.Errorf("%v: got %t, want %t", test.err, got, test.want)
		}
	}
}

func TestAsTimeout(t *testing.T) {
	t.Parallel()
	expired := fmt.Errorf("read: %w", context.DeadlineExceeded)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name        string
		ctx         context.Context
		err         error
		wantTimeout bool
	}{
		{"timeout of the client", t.Context(), expired, true},
		{"context of the caller", ended, expired, false},
		{"another error", t.Context(), nats.ErrNoResponders, false},
	} {
		got := AsTimeout(test.ctx, test.err)
		if errors.Is(got, nats.ErrTimeout) != test.wantTimeout || !test.wantTimeout && got != test.err {
			t.Errorf("%s: got %v, want a timeout: %t", test.name, got, test.wantTimeout)
		}
	}
	if err := AsTimeout(t.Context(), nil); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

// TestDeniedPublish: both forms of a publish return the denial, long before the timeout of the client.
func TestDeniedPublish(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"denied"}},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo("u", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	plain, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	js := JetStream(plain, NewWatch(nc))
	_, err = js.Publish(t.Context(), "denied", nil)
	_, errOfMsg := js.PublishMsg(t.Context(), &nats.Msg{Subject: "denied"})
	if !IsDenied(err) || !IsDenied(errOfMsg) {
		t.Errorf("got %v and %v, want denials", err, errOfMsg)
	}
}
