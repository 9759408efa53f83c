package window

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/direct"
)

// FuzzDecodeVector checks that each accepted value is a vector, and that it encodes to the same bytes.
func FuzzDecodeVector(f *testing.F) {
	for _, v := range []vector{
		{"m", 1, []byte{0, 0, 128, 63}},
		{"m", 2, []byte{0, 0, 128, 63}},
		{"m", -1, nil},
		{"m", 1 << 62, []byte{0, 0, 128, 63}},
		{"m", 1, []byte{0, 0, 192, 127}},
		{"n", 1, []byte{0, 0, 128, 63}},
	} {
		data, err := events.Marshal(&v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte{})
	f.Add([]byte("\xc1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := direct.Message{Header: events.SchemaHeader(), Data: data}
		v, err := decodeVector(m, "m")
		if err != nil {
			if v != nil {
				t.Fatalf("got %v with %v", v, err)
			}
			return
		}
		if len(v) == 0 || 4*len(v) > len(data) {
			t.Fatalf("%d bytes hold a vector of dimension %d", len(data), len(v))
		}
		bits, err := encodeVector(v)
		if err != nil {
			t.Fatalf("encode a decoded vector: %v", err)
		}
		if stored, _ := decode[vector](m); !bytes.Equal(bits, stored.Data) {
			t.Fatalf("read %x, put %x", stored.Data, bits)
		}
	})
}

func TestWriteTimeoutIsNATSTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, cancel := withWriteTimeout(t.Context())
		defer cancel()
		<-ctx.Done()
		if got := cause(ctx, ctx.Err()); !errors.Is(got, nats.ErrTimeout) || time.Since(begun) != writeTimeout {
			t.Errorf("no deadline: got %v after %v", got, time.Since(begun))
		}
		caller, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		ctx, cancel = withWriteTimeout(caller)
		defer cancel()
		<-ctx.Done()
		if got := cause(ctx, ctx.Err()); !errors.Is(got, context.DeadlineExceeded) || errors.Is(got, nats.ErrTimeout) {
			t.Errorf("the caller's deadline: got %v", got)
		}
		if got := cause(ctx, nats.ErrNoResponders); !errors.Is(got, nats.ErrNoResponders) {
			t.Errorf("another error: got %v", got)
		}
	})
}
