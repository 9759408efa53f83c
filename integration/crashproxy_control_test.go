package integration

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestFramesAreForwardedUnchanged checks that frames are parsed correctly, and forwarded byte for byte.
func TestFramesAreForwardedUnchanged(t *testing.T) {
	t.Parallel()
	const header = "NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\nNats-Batch-Id: a\r\n\r\n"
	for _, test := range []struct {
		wire                   string
		subject, reply, header string // the value of Nats-Expected-Last-Subject-Sequence
		payload                string
	}{
		{"INFO {\"port\":4222}\r\n", "", "", "", ""},
		{"PING\r\n", "", "", "", ""},
		{"SUB _INBOX.a.* 1\r\n", "", "", "", ""},
		{"PUB $JS.ACK.REFLECTIONS.curator.1.2.3.4.5 4\r\n+ACK\r\n", "$JS.ACK.REFLECTIONS.curator.1.2.3.4.5", "", "", "+ACK"},
		{"PUB a b 0\r\n\r\n", "a", "b", "", ""},
		{"HPUB debrief.delta.desk _INBOX.a.b 70 75\r\n" + header + "hello\r\n", "debrief.delta.desk", "_INBOX.a.b", "7", "hello"},
		{"MSG _INBOX.a.b 1 13\r\nwith\r\nbreaks!\r\n", "_INBOX.a.b", "", "", "with\r\nbreaks!"},
		{"HMSG a 1 $JS.ACK.x 70 75\r\n" + header + "hello\r\n", "a", "$JS.ACK.x", "7", "hello"},
	} {
		name, _, _ := strings.Cut(test.wire, "\r\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := bufio.NewReader(strings.NewReader(test.wire + "PING\r\n"))
			f, err := readFrame(r)
			if err != nil {
				t.Fatal(err)
			}
			if f.subject != test.subject || f.reply != test.reply || string(f.payload()) != test.payload {
				t.Errorf("got subject %q, reply %q, payload %q; want %q, %q, %q", f.subject, f.reply, f.payload(), test.subject, test.reply, test.payload)
			}
			if f.header > 0 && f.get("Nats-Expected-Last-Subject-Sequence") != test.header {
				t.Errorf("got header %q, want %q", f.get("Nats-Expected-Last-Subject-Sequence"), test.header)
			}
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			if err := f.writeTo(w); err != nil || w.Flush() != nil || out.String() != test.wire {
				t.Errorf("forwarded %q, %v; want %q", out.String(), err, test.wire)
			}
			if rest, _ := io.ReadAll(r); string(rest) != "PING\r\n" {
				t.Errorf("rest of the input: got %q", rest)
			}
		})
	}
}

// TestServerDoesNotAnnounceItsAddress checks that the server does not announce its address, because clients would reconnect
// to it without the proxy and its crash points.
func TestServerDoesNotAnnounceItsAddress(t *testing.T) {
	t.Parallel()
	_, url := startServer(t)
	w := newCrashProxy(t, url)
	nc, err := nats.Connect(w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if found := nc.DiscoveredServers(); len(found) > 0 {
		t.Errorf("the server announces %v", found)
	}
}
