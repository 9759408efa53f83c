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
	url := startServer(t, &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"denied"}}})
	nc, err := nats.Connect(url, nats.UserInfo("u", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
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

// TestDeniedInbox: a call without an inbox returns the denial, and the denial of its own request is not logged beside it.
func TestDeniedInbox(t *testing.T) {
	t.Parallel()
	url := startServer(t, &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"denied"}},
		Subscribe: &server.SubjectPermission{Allow: []string{"events"}},
	})
	var logged []error
	closed := make(chan struct{})
	nc, err := nats.Connect(url, nats.UserInfo("u", "p"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { logged = append(logged, err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = JetStream(plain, NewWatch(nc)).Publish(t.Context(), "denied", nil)
	if !IsDenied(err) {
		t.Errorf("got %v, want a denial", err)
	}
	if err := nc.Flush(); err != nil { // the server has sent both denials
		t.Fatal(err)
	}
	nc.Close()
	<-closed // called after all errors
	if len(logged) > 0 {
		t.Errorf("logged %v", logged)
	}
}

// startServer returns the address of a server with JetStream and one user: u with the password p.
func startServer(t *testing.T, permissions *server.Permissions) string {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "u", Password: "p", Permissions: permissions}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server did not start")
	}
	return srv.ClientURL()
}
