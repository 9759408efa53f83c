package events

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"

	"debrief/playbook"
)

// hostile are payloads that crash the library or crashed an earlier version of this package.
var hostile = [][]byte{
	{0xdd, 0xff, 0xff, 0xff, 0xff},
	{0xdf, 0xff, 0xff, 0xff, 0xff},
	bytes.Repeat([]byte{0x91}, 1000),
	{0x81, 0xa7, 'c', 'r', 'e', 'a', 't', 'e', 'd', 0xc0},
	{0x81, 0xa8, 'e', 'n', 'v', 'e', 'l', 'o', 'p', 'e', 0xc0},
	{0x81, 0xa6, 'h', 'e', 'a', 'd', 'e', 'r', 0xd6, 0xff, 0xdf, 0xff, 0xff, 0xff},
	{0x81, 0xa1, 't', 0xc7, 0x0c, 0xff, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
}

// FuzzGuard compares guard with the library's own Skip, which reads the same structure.
func FuzzGuard(f *testing.F) {
	for _, data := range hostile {
		f.Add(data)
	}
	for _, e := range samples() {
		f.Add(mustMarshal(f, e))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return // Skip recurses
		}
		r := bytes.NewReader(data)
		skip := msgpack.NewDecoder(r).Skip()
		whole := skip == nil && r.Len() == 0
		err := guard(data)
		_, limited := errors.AsType[*limitError](err)
		switch {
		case err == nil && !whole:
			t.Errorf("guard accepts % x, Skip returns %v and leaves %d bytes", data, skip, r.Len())
		case err != nil && whole && !limited:
			t.Errorf("Skip accepts % x, guard returns %v", data, err)
		case errors.Is(skip, io.EOF) && err == nil:
			t.Errorf("guard accepts % x, which is truncated", data)
		}
		for _, offset := range []int{0, 1, len(data) / 2, len(data)} {
			keyAt(data, offset)
		}
	})
}

// FuzzDecode decodes any data as every kind. A decoded event must encode and decode again without a change.
func FuzzDecode(f *testing.F) {
	subjects := make([]string, 0, len(samples()))
	for _, k := range []Kind{KindTask, KindExecution, KindFeedback, KindReflection, KindEdit, KindDead} {
		subject, _, data, err := Encode(samples()[k])
		if err != nil {
			f.Fatal(err)
		}
		for i, h := range append(hostile, data) {
			f.Add(len(subjects)+6*i, h)
		}
		subjects = append(subjects, subject)
	}
	f.Fuzz(func(t *testing.T, kind int, data []byte) {
		subject := subjects[uint(kind)%uint(len(subjects))]
		first, err := Decode(subject, SchemaHeader(), data)
		if err != nil {
			return
		}
		subject, header, again, err := Encode(first)
		if err != nil {
			t.Fatalf("decoded and cannot be encoded: %v", err)
		}
		second, err := Decode(subject, header, again)
		if err != nil {
			t.Fatalf("encoded and cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(first, second, sameEvent); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}

// FuzzRedaction does the same for redactions.
func FuzzRedaction(f *testing.F) {
	f.Add(mustMarshal(f, redaction()))
	for _, data := range hostile {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := DecodeRedaction(data)
		if err != nil {
			return
		}
		again, err := EncodeRedaction(first)
		if err != nil {
			t.Fatalf("decoded and cannot be encoded: %v", err)
		}
		second, err := DecodeRedaction(again)
		if err != nil {
			t.Fatalf("encoded and cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}

// FuzzDelta does the same for deltas.
func FuzzDelta(f *testing.F) {
	f.Add(mustMarshal(f, delta()))
	f.Add(mustMarshal(f, tags(3)))
	for _, data := range hostile {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := DecodeDelta(data)
		if err != nil {
			return
		}
		again, err := EncodeDelta(first)
		if err != nil {
			if len(data) > playbook.MaxDeltaBytes/8 {
				return // short encodings of long lists of nothing
			}
			t.Fatalf("decoded and cannot be encoded: %v", err)
		}
		second, err := DecodeDelta(again)
		if err != nil {
			t.Fatalf("encoded and cannot be decoded: %v", err)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-first +second:\n%s", diff)
		}
	})
}
