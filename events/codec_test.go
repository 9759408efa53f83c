package events

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"debrief/playbook"
)

func TestEncodeDecodeRoundTrip(t *testing.T) {
	t.Parallel()
	for k, e := range samples() {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			subject, header, data, err := Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(subject, header, data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got, sameEvent); diff != "" {
				t.Errorf("-sent +received:\n%s", diff)
			}
			for range 4 {
				if _, _, again, _ := Encode(got); !bytes.Equal(again, data) {
					t.Fatal("the same event has different bytes")
				}
			}
		})
	}
}

func TestSubjectOfEncode(t *testing.T) {
	t.Parallel()
	want := map[Kind]string{
		KindTask: "debrief.round.main." + string(Hash("owner")), KindExecution: "debrief.execution.main", KindFeedback: "debrief.feedback.main",
		KindReflection: "debrief.reflection.main", KindEdit: "debrief.edit.main", KindDead: "debrief.dead.reflector.error.main." + string(samples()[KindDead].EventID()),
	}
	for k, e := range samples() {
		if got, _, _, err := Encode(e); got != want[k] || err != nil {
			t.Errorf("%s: got %q, %v, want %q", k, got, err, want[k])
		}
	}
}

func TestEncodeRejectsInvalidEvents(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Event{
		`encode task: book ""`:              &Task{ID: "1", Question: "q"},
		"encode task: question: ":           &Task{Book: "main", ID: "1"},
		"encode execution: outcome.score: ": &Execution{Book: "main", ID: Hash(), RunID: "1", Outcome: Outcome{Score: 2}},
		"encode dead: role, subject: ":      &DeadLetter{Book: "main"},
	} {
		if _, _, _, err := Encode(e); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestDecodeRejectsInvalidMessages(t *testing.T) {
	t.Parallel()
	schema := func(v ...string) map[string][]string { return map[string][]string{HeaderSchema: v} }
	task := mustMarshal(t, samples()[KindTask])
	for _, test := range []struct {
		name, subject string
		header        map[string][]string
		data          []byte
		want          string
	}{
		{"a foreign subject", "orders.new", schema("1"), task, `subject "orders.new": `},
		{"a kind we do not have", "debrief.gossip.main", schema("1"), task, `subject "debrief.gossip.main": kind "gossip": `},
		{"a delta, which is no event", "debrief.delta.main", schema("1"), task, `subject "debrief.delta.main": kind "delta": `},
		{"a wildcard for a book", "debrief.task.*", schema("1"), task, `subject "debrief.task.*": book "*"`},
		{"no schema", "debrief.task.main", nil, task, "decode task: header Debrief-Schema: "},
		{"two schemas", "debrief.task.main", schema("1", "1"), task, "decode task: header Debrief-Schema: "},
		{"schema zero", "debrief.task.main", schema("0"), task, `decode task: header Debrief-Schema: `},
		{"a schema that is no number", "debrief.task.main", schema("one"), task, `decode task: header Debrief-Schema: `},
		{"no payload", "debrief.task.main", schema("1"), nil, "decode task: "},
		{"a payload that is no map", "debrief.task.main", schema("1"), []byte{0x01}, "decode task: "},
		{"a number for a name", "debrief.task.main", schema("1"), rawMap(t, "session", 5), `decode task: field "session": `},
		{"text deep inside a list", "debrief.execution.main", schema("1"), rawMap(t, "task", "x", "steps", []any{map[string]any{"calls": "x"}}), `decode execution: field "steps": `},
		{"text for a time", "debrief.task.main", schema("1"), rawMap(t, "created", "today"), `decode task: field "created": `},
		{"a time no calendar has", "debrief.task.main", schema("1"), rawMap(t, "created", time.Unix(1<<60, 0)), `decode task: field "created": `},
		{"a missing field", "debrief.task.main", schema("1"), rawMap(t, "run_id", "1"), "decode task: question: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, err := Decode(test.subject, test.header, test.data)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || errors.Is(err, ErrNewerSchema) {
				t.Errorf("got %v, %v, want %s", e, err, test.want)
			}
		})
	}
}

func TestDecodeNewerSchema(t *testing.T) {
	t.Parallel()
	_, err := Decode("debrief.task.main", map[string][]string{HeaderSchema: {fmt.Sprint(Schema + 1)}}, []byte{0xc1})
	if !errors.Is(err, ErrNewerSchema) {
		t.Errorf("got %v, want ErrNewerSchema before the payload is decoded", err)
	}
}

func TestDecodeTakesBookFromSubject(t *testing.T) {
	t.Parallel()
	data := rawMap(t, "run_id", "1", "question", "q", "Book", "theirs", "book", "theirs", "envelope", map[string]any{"Book": "theirs"})
	e, err := Decode("debrief.task.ours", SchemaHeader(), data)
	if err != nil || e.InBook() != "ours" {
		t.Errorf("got %v, %v, want book ours", e, err)
	}
}

// TestDecodeNil decodes nil values. The library panics on nil for a time and for an unexported embedded struct.
func TestDecodeNil(t *testing.T) {
	t.Parallel()
	for k, e := range samples() {
		subject, header, _, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"envelope", "created", "started", "time", "origin", "header", "shown", "usage", "outcome"} {
			if _, err := Decode(subject, header, rawMap(t, key, nil)); err == nil {
				t.Errorf("%s with only %s: nil: want an error for a missing field", k, key)
			}
		}
	}
	var task Task
	if err := Unmarshal(rawMap(t, "created", nil), &task); err != nil || !task.Created.IsZero() {
		t.Errorf("created nil: got %v, %v, want no time", task.Created, err)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	data := rawMap(t, "later", map[string]any{"a": []any{1, "b", noon, nil, 1.5}}, "run_id", "1", "question", "q")
	if _, err := Decode("debrief.task.main", SchemaHeader(), data); err != nil {
		t.Error(err)
	}
}

func TestTimesAreUTC(t *testing.T) {
	t.Parallel()
	cet := noon.Add(time.Microsecond).In(time.FixedZone("CET", 3600))
	var got Edit
	if err := Unmarshal(mustMarshal(t, &Edit{Created: cet}), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Created.Equal(cet) || got.Created.Location() != time.UTC {
		t.Errorf("got %v, want %v in UTC", got.Created, cet)
	}
}

func TestHeaderRejectsExtensionValue(t *testing.T) {
	t.Parallel()
	// An extension value whose body is the head of a map with four billion keys: well-formed as bytes.
	data := append(rawMap(t, "header", nil)[:8], 0xd6, 0xff, 0xdf, 0xff, 0xff, 0xff)
	if err := guard(data); err != nil {
		t.Fatalf("guard: %v, so this tests nothing", err)
	}
	if err := Unmarshal(data, new(DeadLetter)); err == nil || !strings.Contains(err.Error(), `field "header"`) {
		t.Errorf("got %v, want an error", err)
	}
}

func TestUnmarshalRequiresZeroValue(t *testing.T) {
	t.Parallel()
	data := mustMarshal(t, samples()[KindTask])
	for name, v := range map[string]any{"used": &Task{ID: "1"}, "by value": Task{}, "nil": (*Task)(nil), "nothing": nil} {
		if err := Unmarshal(data, v); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

func TestMarshalRejectsMapsAndInterfaces(t *testing.T) {
	t.Parallel()
	type inner struct{ Values []map[string]int }
	type node struct{ Next *node }
	for name, v := range map[string]any{
		"any": new(any), "a map": new(map[string]int), "a map inside": new(inner), "a list of any": new([]any), "nil": nil,
	} {
		if _, err := Marshal(v); err == nil {
			t.Errorf("%s: Marshal returned no error", name)
		}
		if err := Unmarshal([]byte{0xc0}, v); err == nil {
			t.Errorf("%s: Unmarshal returned no error", name)
		}
	}
	if _, err := Marshal(&node{Next: new(node)}); err != nil {
		t.Errorf("a list of nodes: %v", err)
	}
}

func TestEncodeDecodeDelta(t *testing.T) {
	t.Parallel()
	data, err := EncodeDelta(delta())
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDelta(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(delta(), got); diff != "" {
		t.Errorf("-sent +received:\n%s", diff)
	}
}

func TestEncodeDeltaRejectsInvalidDeltas(t *testing.T) {
	t.Parallel()
	large := delta()
	for range 5 {
		large.Ops = append(large.Ops, playbook.Op{Kind: playbook.Add, Bullet: "x", Content: strings.Repeat("x", 60<<10)})
	}
	if _, err := EncodeDelta(large); err == nil || !strings.Contains(err.Error(), "at most 262144") {
		t.Errorf("too large: got %v", err)
	}
	late := delta()
	late.Time = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := EncodeDelta(late); err == nil || !strings.Contains(err.Error(), "year 10000") {
		t.Errorf("a time that cannot be read again: got %v", err)
	}
	if _, err := EncodeDelta(&playbook.Delta{}); err == nil || !strings.HasPrefix(err.Error(), "encode delta: version: ") {
		t.Errorf("invalid: got %v", err)
	}
	if _, err := DecodeDelta(rawMap(t, "v", 1, "x", []byte("a"))); err == nil || !strings.HasPrefix(err.Error(), "decode delta: previous_chain:") {
		t.Errorf("invalid on the wire: got %v", err)
	}
	if _, err := DecodeDelta([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}); err == nil {
		t.Error("a hostile length: want an error")
	}
}

// TestPooledCodersConcurrently uses the pools from many goroutines. With -race it detects a buffer with two users.
func TestPooledCodersConcurrently(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				text := strings.Repeat(fmt.Sprint(i), 1+j*j)
				data, err := Marshal(&Lesson{Content: text})
				var got Lesson
				if err := errors.Join(err, Unmarshal(data, &got)); err != nil || got.Content != text {
					t.Errorf("got %d bytes, %v, want %d", len(got.Content), err, len(text))
				}
				_ = Unmarshal([]byte{0x81, 0xa7, 'c', 'o', 'n', 't', 'e', 'n', 't', 0x01}, new(Lesson))
			}
		})
	}
	wg.Wait()
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// rawMap encodes a map as another program might send it.
func rawMap(t testing.TB, pairs ...any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	err := enc.EncodeMapLen(len(pairs) / 2)
	for _, v := range pairs {
		err = errors.Join(err, enc.Encode(v))
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
