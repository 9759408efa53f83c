package window_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/natsd"
	"debrief/events/window"
)

// TestMain fails the package when a server, a connection or a wait outlives its test.
func TestMain(m *testing.M) {
	bustest.Prepare()
	code := m.Run()
	if code == 0 {
		// nats.go leaves this goroutine if an upload to the object store ends before the goroutine has started.
		leftover := goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
		if err := goleak.Find(leftover); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// open returns a store on a new server.
func open(t testing.TB) (*window.Store, *nats.Conn) {
	t.Helper()
	conn, nc := bustest.Open(t, bus.Policy{})
	return window.New(nc, conn.JetStream()), nc
}

// connections returns n stores on one server, each with a separate connection.
func connections(t testing.TB, n int, cfg natsd.Config) ([]*window.Store, *natsd.Server) {
	t.Helper()
	srv, err := natsd.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	stores := make([]*window.Store, n)
	for i := range stores {
		nc, err := srv.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		conn, err := bus.Open(t.Context(), nc, bus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = window.New(nc, conn.JetStream())
	}
	return stores, srv
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// turn returns the interaction for a turn of a session.
func turn(session string, n int) *events.Interaction {
	id := events.Hash("test", session, fmt.Sprint(n))
	return &events.Interaction{
		Execution: events.NewHandle(uint64(n), id), ID: id, Turn: n, At: start.Add(time.Duration(n) * time.Minute),
		Question: fmt.Sprintf("question %d of %.20q", n, session), Answer: fmt.Sprint("answer ", n), Label: events.Success,
	}
}

func note(session string, n int) *events.Note {
	id := events.Hash("note", session, fmt.Sprint(n))
	return &events.Note{
		Reflection: events.NewHandle(uint64(n), id), ID: id, Session: session, At: start.Add(time.Duration(n) * time.Minute),
		Insight: fmt.Sprint("insight ", n),
	}
}

// place publishes arbitrary bytes and headers, as another program might.
func place(t testing.TB, nc *nats.Conn, bucket, key string, header map[string][]string, data []byte) {
	t.Helper()
	m := &nats.Msg{Subject: "$KV." + bucket + "." + key, Header: header, Data: data}
	reply, err := nc.RequestMsgWithContext(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(reply.Data), `"seq"`) || strings.Contains(string(reply.Data), `"error"`) {
		t.Fatalf("put %s: got %q %v", key, reply.Data, reply.Header)
	}
}

func pack(t testing.TB, v any) []byte {
	t.Helper()
	data, err := events.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
