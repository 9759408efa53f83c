// Package bustest starts an embedded server with the streams for a test, and makes tests with embedded servers fast.
package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events/bus"
	"debrief/events/natsd"
)

// Server starts a server with temporary storage. The returned function connects to it. The server and the connections are closed at the end
// of the test.
func Server(t testing.TB) (connect func() *nats.Conn) {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"}) // tests need no protection against power loss
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return func() *nats.Conn {
		t.Helper()
		nc, err := srv.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
}

// Open opens the streams of a new server, see [Server].
func Open(t testing.TB, p bus.Policy) (*bus.Conn, *nats.Conn) {
	t.Helper()
	nc := Server(t)()
	conn, err := bus.Open(t.Context(), nc, bus.Options{Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	return conn, nc
}

// Must returns v. It panics if there is an error: a test that configures a role wrongly is broken.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
