package deltalog

import (
	"bytes"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/direct"
	"debrief/playbook"
)

// FuzzCursorSkipsGarbage: a log with other messages at any position reads like the log without them. Each byte of the
// script stores the next delta, a copy of an earlier one, a delta with a wrong link, or the garbage.
func FuzzCursorSkipsGarbage(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 0, 3, 1}, []byte("garbage"))
	f.Add([]byte{3, 3, 0, 2, 2, 0}, []byte{0x80})
	f.Fuzz(func(t *testing.T, script, garbage []byte) {
		var stored []direct.Message
		var log []uint64 // sequences of the deltas
		next := playbook.Delta{Version: 1}
		store := func(data []byte, header nats.Header) {
			stored = append(stored, direct.Message{Seq: uint64(len(stored) + 1), Data: data, Header: header})
		}
		encode := func(d playbook.Delta) []byte {
			data, err := events.EncodeDelta(&d)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		for i, what := range script[:min(len(script), 200)] {
			header := nats.Header(events.SchemaHeader())
			switch what % 4 {
			case 0:
				store(encode(next), header)
				last := newCandidate(stored[len(stored)-1])
				log = append(log, last.Seq)
				next = playbook.Delta{Version: next.Version + 1, PrevSeq: last.Seq, PrevChain: last.Chain}
			case 1:
				if len(log) > 0 {
					store(stored[log[i%len(log)]-1].Data, header)
				}
			case 2:
				wrong := next
				wrong.PrevSeq += uint64(what/4) + 1
				store(encode(wrong), header)
			default:
				if c := newCandidate(direct.Message{Data: garbage, Header: header}); c.err == nil && c.Version == next.Version {
					return // no garbage
				}
				store(garbage, header)
			}
		}
		c := &logCursor{book: "b"}
		strays := 0
		c.onStray = func(Stray) { strays++ }
		var read []uint64
		for _, m := range stored {
			is, err := c.advance(newCandidate(m))
			if err != nil {
				t.Fatal(err)
			}
			if is {
				read = append(read, m.Seq)
			}
		}
		c.confirmStrays()
		if !slices.Equal(read, log) || strays != len(stored)-len(log) {
			t.Fatalf("read %v and %d strays, want %v of %d messages", read, strays, log, len(stored))
		}
		if n := len(log); n > 0 && !bytes.Equal(c.chain, next.PrevChain) {
			t.Fatal("the cursor has another chain hash than the log")
		}
	})
}
