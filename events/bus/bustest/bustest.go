// Package bustest starts an embedded server with the streams for a test, and makes tests with embedded servers fast.
package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events/bus"
	"debrief/events/natsd"
)

// Open starts a server with temporary storage and opens its streams. The server and the connection are closed at the
// end of the test.
func Open(t testing.TB, p bus.Policy) (*bus.Conn, *nats.Conn) {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"}) // tests need no protection against power loss
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
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
