// Package bustest gives tests a server of their own with the streams on it.
package bustest

import (
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events/bus"
	"debrief/events/natsd"
)

// Open starts a server that keeps nothing and opens its streams. All of it ends with the test.
func Open(t testing.TB, p bus.Policy) (*bus.Conn, *nats.Conn) {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"}) // what a test writes need not outlive the machine
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
