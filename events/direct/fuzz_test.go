package direct

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// FuzzParse: parse returns the sequence of the server for a stored message with any headers.
func FuzzParse(f *testing.F) {
	for _, stored := range []string{
		"", " 204 EOB", " 503", "\r\nStatus: 404", "\r\nNats-Sequence: 9", "\r\nNats-Sequence:\r\nNats-Subject: elsewhere",
		"\r\nnats-sequence: 9", "\r\n: 9",
	} {
		f.Add([]byte(stored))
	}
	f.Fuzz(func(t *testing.T, headers []byte) {
		stored := "NATS/1.0" + string(headers) + "\r\n"
		if header, err := nats.DecodeHeadersMsg([]byte(stored + "\r\n")); err == nil {
			parse(&nats.Msg{Header: header}) // as headers of the server
		}
		header, err := nats.DecodeHeadersMsg([]byte(stored + "Nats-Subject: s.a\r\nNats-Sequence: 7\r\n\r\n"))
		if err != nil || strings.Contains(stored, "\n\r\n") || strings.Contains(stored, "\n\n") { // end of the headers
			return
		}
		m, err := parse(&nats.Msg{Header: header, Data: headers})
		if err != nil || m.Seq != 7 || m.Subject != "s.a" || !bytes.Equal(m.Data, headers) {
			t.Fatalf("got %v (%v) under %q, want message 7 of s.a", m, err, headers)
		}
	})
}
