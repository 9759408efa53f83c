package events

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

func TestGuardRejectsInvalidData(t *testing.T) {
	t.Parallel()
	const truncated, limited, malformed = "truncated", "limited", "malformed"
	for _, test := range []struct {
		name     string
		data     []byte
		want, at string
	}{
		{"nothing", nil, truncated, ""},
		{"an array of 4 billion", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}, malformed, "byte 0: "},
		{"a map of 4 billion", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}, malformed, "byte 0: "},
		{"a string of 4 billion", []byte{0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, malformed, "byte 0: "},
		{"an array one longer than its bytes", []byte{0x93, 1, 2}, malformed, "byte 0: "},
		{"a map with half a pair", []byte{0x81, 0xa1, 'k'}, truncated, ""},
		{"a million nested arrays", bytes.Repeat([]byte{0x91}, 1_000_000), limited, "byte 32: "},
		{"a million nested maps", bytes.Repeat([]byte{0x81, 0xa0}, 1_000_000), limited, "byte 64: "},
		{"a million elements", append([]byte{0xdd, 0, 15, 66, 64}, make([]byte, 1_000_000)...), limited, "byte 0: "},
		{"a million elements in small arrays", append([]byte{0xdc, 0xea, 0x60}, bytes.Repeat(append([]byte{0x9f}, make([]byte, 15)...), 60_000)...), limited, ""},
		{"data behind the value", []byte{0xc0, 0xc0}, malformed, "byte 1: "},
		{"the byte that means nothing", []byte{0x91, 0xc1}, malformed, "byte 1: "},
		{"another extension type", []byte{0xd6, 0x05, 0, 0, 0, 0}, limited, "byte 0: "},
		{"a timestamp of 1 byte", []byte{0xd4, 0xff, 0}, limited, "byte 0: "},
		{"a timestamp of 2 GB", []byte{0xc9, 0x80, 0, 0, 0, 0xff}, limited, "byte 0: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			err := guard(test.data)
			got := malformed
			if _, limit := errors.AsType[*limitError](err); limit {
				got = limited
			} else if errors.Is(err, errTruncated) {
				got = truncated
			}
			if err == nil || got != test.want || !strings.Contains(err.Error(), test.at) {
				t.Errorf("got %v, want it %s at %q", err, test.want, test.at)
			}
			if took := time.Since(began); took > 20*time.Second { // normally some milliseconds; minutes if guard trusted the declared sizes
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestGuardAcceptsTheLimits(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"32 deep":        append(bytes.Repeat([]byte{0x91}, maxDepth), 0xc0),
		"524288 of them": append([]byte{0xdd, 0, 8, 0, 0}, make([]byte, maxElements)...),
		"empty array":    {0x90},
		"empty map":      {0x80},
		"32-bit time":    {0xd6, 0xff, 0, 0, 0, 0},
		"96-bit time":    append([]byte{0xc7, 12, 0xff}, make([]byte, 12)...),
	} {
		if err := guard(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGuardDoesNotAllocate(t *testing.T) {
	data := mustMarshal(t, typical())
	if n := testing.AllocsPerRun(100, func() { _ = guard(data) }); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}

// value returns a random value of the allowed types, with at most depth nested containers.
func value(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		rapid.Int64().AsAny(),
		rapid.Uint64().AsAny(),
		rapid.Float32().AsAny(),
		rapid.Float64().AsAny(),
		rapid.String().AsAny(),
		rapid.Map(rapid.IntRange(0, 70_000), func(n int) any { return strings.Repeat("x", n) }),
		rapid.SliceOf(rapid.Byte()).AsAny(),
		rapid.Map(rapid.Int64Range(math.MinInt32, 253402300799), func(s int64) any { return time.Unix(s, s&0xffffff) }),
	}
	if depth > 0 {
		kinds = append(kinds,
			rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 20).AsAny(),
			rapid.MapOfN(rapid.String(), rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 20).AsAny(),
		)
	}
	return rapid.OneOf(kinds...)
}

// TestGuardAgreesWithTheLibrary checks that guard accepts each value of the library, but not a part of it, or more
// than it.
func TestGuardAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var buf bytes.Buffer
		enc := msgpack.NewEncoder(&buf)
		enc.UseCompactInts(rapid.Bool().Draw(t, "compact"))
		if err := enc.Encode(value(4).Draw(t, "value")); err != nil {
			t.Fatal(err)
		}
		data := buf.Bytes()
		if err := guard(data); err != nil {
			t.Fatalf("refused: %v", err)
		}
		if cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut"); guard(data[:cut]) == nil {
			t.Fatalf("accepted the first %d of %d bytes", cut, len(data))
		}
		if guard(append(data, rapid.Byte().Draw(t, "more"))) == nil {
			t.Fatal("accepted an additional byte")
		}
	})
}

// TestUnmarshalAcceptsMarshal uses sizes on both sides of every length encoding.
func TestUnmarshalAcceptsMarshal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SampledFrom([]int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536})
		e := samples()[KindExecution].(*Execution)
		e.Answer = strings.Repeat("a", lengths.Draw(t, "answer"))
		e.PromptSHA256 = make([]byte, lengths.Draw(t, "bytes"))
		e.Steps = make([]Step, lengths.Draw(t, "steps"))
		e.Version = rapid.Uint64().Draw(t, "version")
		e.Duration = time.Duration(rapid.Int64().Draw(t, "duration"))
		e.Usage.Cost = rapid.Float64().Draw(t, "cost")
		var got Execution
		if err := Unmarshal(mustMarshalRapid(t, e), &got); err != nil {
			t.Fatal(err)
		}
		if got.Answer != e.Answer || len(got.PromptSHA256) != len(e.PromptSHA256) || len(got.Steps) != len(e.Steps) ||
			got.Version != e.Version || got.Duration != e.Duration || got.Usage != e.Usage {
			t.Fatalf("got %d steps, version %d, duration %d, want %d, %d, %d", len(got.Steps), got.Version, got.Duration, len(e.Steps), e.Version, e.Duration)
		}
	})
}

func mustMarshalRapid(t *rapid.T, v any) []byte {
	data, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestKeyAt(t *testing.T) {
	t.Parallel()
	data := rawMap(t, "a", 1, strings.Repeat("k", 40), "vv", "c", []any{1, 2, 3})
	for offset, want := range map[int]string{2: "a", 4: "a", 5: strings.Repeat("k", 40), len(data): "c", len(data) + 1: ""} {
		if got := keyAt(data, offset); got != want {
			t.Errorf("offset %d: got %q, want %q", offset, got, want)
		}
	}
	for _, data := range [][]byte{nil, {0x01}, {0x81}, {0x81, 0xc1}, {0x81, 0xa1}} {
		if got := keyAt(data, 1); got != "" {
			t.Errorf("% x: got %q, want none", data, got)
		}
	}
}

// TestRewriteStringsChangesOnlyStrings also uses new strings that are longer than the old ones.
func TestRewriteStringsChangesOnlyStrings(t *testing.T) {
	t.Parallel()
	e := samples()[KindExecution].(*Execution)
	e.Answer = "an answer unlike the other texts"
	data := mustMarshal(t, e)
	same, err := RewriteStrings(data, func(s string) string { return s })
	if err != nil || !bytes.Equal(same, data) {
		t.Errorf("unchanged strings: got %d bytes, %v, want the same %d", len(same), err, len(data))
	}
	got, err := RewriteStrings(data, func(s string) string {
		if s == e.Answer {
			return strings.Repeat("x", 70_000)
		}
		return s
	})
	var after Execution
	if err == nil {
		err = Unmarshal(got, &after)
	}
	if err != nil || after.Answer != strings.Repeat("x", 70_000) {
		t.Fatalf("got an answer of %d bytes, %v", len(after.Answer), err)
	}
	after.Answer, after.Book = e.Answer, e.Book
	if !reflect.DeepEqual(&after, e) {
		t.Errorf("got %+v, want %+v", &after, e)
	}
	if _, err := RewriteStrings(data[:len(data)-1], strings.ToUpper); err == nil {
		t.Error("a value that is cut off was accepted")
	}
}
