package erase

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
)

// TestStreamWithoutLeader checks that an eraser waits for a stream without a leader, which may hold data of erased runs, and searches on
// without a stream that does not exist. Readers get the same error from both.
func TestStreamWithoutLeader(t *testing.T) {
	t.Parallel()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true}) // without JetStream
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	nc, err := nats.Connect("", nats.InProcessServer(srv))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	const missing = `{"code":404,"err_code":10059,"description":"stream not found"}`
	const noLeader = `{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}`
	for stream, answer := range map[string]string{events.StreamDead: missing, events.StreamExecutions: noLeader} {
		if _, err := nc.Subscribe("$JS.API.STREAM.INFO."+stream, func(m *nats.Msg) { _ = m.Respond(fmt.Appendf(nil, `{"error":%s}`, answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := bus.Attach(nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := New(conn, nil)
	read := func(stream string) error {
		return e.read(t.Context(), stream, func(direct.Message) error { return nil })
	}
	if err := read(events.StreamDead); err != nil {
		t.Errorf("a missing stream: got %v, want no error", err)
	}
	if err := read(events.StreamExecutions); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a stream without a leader: got %v, want %v", err, nats.ErrNoResponders)
	}
}
