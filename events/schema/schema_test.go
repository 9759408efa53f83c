package schema

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"debrief/events"
)

// encoded returns the value of a real message with all fields. Those in MessagePack are the golden files of package
// events, which a test compares with the encoder.
func encoded(t *testing.T, m *Message) map[string]any {
	t.Helper()
	if m.Encoding == MessagePack && m.Name != "edit-reply" {
		files, err := filepath.Glob(filepath.Join("..", "testdata", "wire", m.Name+"-*.msgpack"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: found no golden file: %v", m.Name, err)
		}
		slices.Sort(files)
		data, err := os.ReadFile(files[len(files)-1])
		if err != nil {
			t.Fatal(err)
		}
		return decodeMessagePack(t, data)
	}
	v := reflect.New(m.payload)
	complete(v.Elem())
	if m.Encoding == MessagePack {
		data, err := events.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		return decodeMessagePack(t, data)
	}
	data, err := json.Marshal(v.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return decodeJSON(t, data)
}

// zero returns the value of a message without optional fields.
func zero(t *testing.T, m *Message) map[string]any {
	t.Helper()
	v := reflect.New(m.payload).Interface()
	if m.Encoding == MessagePack {
		data, err := events.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return decodeMessagePack(t, data)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return decodeJSON(t, data)
}

func decodeJSON(t *testing.T, data []byte) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// complete sets each field, with the first constant of a type that has some.
func complete(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		complete(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 3, 12, 0, 0, 1, time.UTC)))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				complete(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		complete(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			complete(v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
		if all := comments()[typeName(v.Type())].Values; v.Type().PkgPath() != "" && len(all) > 0 {
			v.SetString(all[0].Value)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	default:
		panic("no value for a " + v.Type().String())
	}
}

// messages returns the messages with a payload that has fields.
func messages() []Message {
	return slices.DeleteFunc(Messages(), func(m Message) bool { return m.payload == nil })
}

func resolve(t *testing.T, s *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestEncodedMessagesMatchSchemas validates real messages: with all fields, where each must be in the schema and each of
// the schema in the message, and without optional fields.
func TestEncodedMessagesMatchSchemas(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s := m.JSONSchema()
			for name, d := range s.Defs {
				d.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
				if d.Description == "" {
					t.Errorf("%s has no description", name)
				}
			}
			full := encoded(t, &m)
			if err := resolve(t, s).Validate(full); err != nil {
				t.Errorf("all fields: %v", err)
			}
			for name := range s.Defs[m.payload.Name()].Properties {
				if _, ok := full[name]; !ok && m.Name+" "+name != "delta m" { // More: its golden file is a last delta, which has covers
					t.Errorf("the schema has the field %q, a message does not", name)
				}
			}
			if m.Required == nil {
				if err := resolve(t, m.JSONSchema()).Validate(zero(t, &m)); err != nil {
					t.Errorf("no optional fields: %v", err)
				}
			}
		})
	}
}

func TestSchemasRejectInvalidMessages(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			s := m.JSONSchema()
			valid := resolve(t, s)
			for name := range s.Defs[m.payload.Name()].Properties {
				full := encoded(t, &m)
				if _, ok := full[name].(map[string]any); ok {
					full[name] = 7.0
				} else {
					full[name] = map[string]any{"x": 1.0}
				}
				if valid.Validate(full) == nil {
					t.Errorf("accepts %s: %v", name, full[name])
				}
			}
			for _, name := range s.Defs[m.payload.Name()].Required {
				full := encoded(t, &m)
				delete(full, name)
				if valid.Validate(full) == nil {
					t.Errorf("accepts a message without %s", name)
				}
			}
			full := encoded(t, &m)
			full["unknown"] = "x"
			if got := valid.Validate(full) != nil; got != m.Strict {
				t.Errorf("rejects an unknown field: got %v, want %v", got, m.Strict)
			}
		})
	}
}

// TestExamples decodes the example of each message that clients send in JSON, and validates it with the JSON Schema of the message.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, m := range messages() {
		if want := m.Encoding == JSON && m.Required != nil; want != (m.Example != "") {
			t.Errorf("%s: has the example %q, want one: %v", m.Name, m.Example, want)
		}
		if m.Example == "" {
			continue
		}
		if err := decoders[m.Name]([]byte(m.Example)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		s := m.JSONSchema()
		if err := resolve(t, s).Validate(decodeJSON(t, []byte(m.Example))); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if len(s.Examples) != 1 {
			t.Errorf("%s: got %d examples in the schema, want 1", m.Name, len(s.Examples))
		}
	}
}

// decoders decode the JSON that clients send, as the product does.
var decoders = map[string]func([]byte) error{
	"task-json": func(data []byte) error {
		_, err := events.Decode("debrief.task.main", map[string][]string{events.HeaderContentType: {JSON}}, data)
		return err
	},
	"context-request": func(data []byte) error {
		r := events.ContextRequest{Book: "main"}
		if err := events.DecodeStrict(data, &r); err != nil {
			return err
		}
		return r.Validate()
	},
	"report": func(data []byte) error { return events.DecodeStrict(data, new(events.Report)) },
	"feedback-request": func(data []byte) error {
		var r events.FeedbackRequest
		if err := events.DecodeStrict(data, &r); err != nil {
			return err
		}
		f := events.Feedback{ID: events.NewID(), Execution: r.Execution}
		return f.Validate()
	},
}

// TestRequiredFieldsAreThoseOfTheDecoders: the decoder of a message from a client accepts one with the required fields, and
// names each that is missing.
func TestRequiredFieldsAreThoseOfTheDecoders(t *testing.T) {
	t.Parallel()
	values := map[string]string{"run_id": "a", "question": "q", "query": "q", "execution": "17-ab12cd34"}
	for _, m := range messages() {
		if m.Encoding != JSON || m.Required == nil {
			continue
		}
		decode := decoders[m.Name]
		if decode == nil {
			t.Fatalf("%s: this test has no decoder", m.Name)
		}
		least := map[string]string{}
		for _, name := range m.Required {
			least[name] = values[name]
		}
		send := func() error {
			data, err := json.Marshal(least)
			if err != nil {
				t.Fatal(err)
			}
			valid := resolve(t, m.JSONSchema()).Validate(decodeJSON(t, data))
			if err = decode(data); (err == nil) != (valid == nil) {
				t.Errorf("%s: %s: the schema returns %v, the decoder %v", m.Name, data, valid, err)
			}
			return err
		}
		if err := send(); err != nil {
			t.Errorf("%s: only the required fields: %v", m.Name, err)
		}
		for _, name := range m.Required {
			delete(least, name)
			if err := send(); err == nil || !strings.Contains(err.Error(), name+": ") {
				t.Errorf("%s without %s: got %v", m.Name, name, err)
			}
			least[name] = values[name]
		}
		least["unknwon"] = "x"
		if err := send(); err == nil || !strings.Contains(err.Error(), `unknown field "unknwon"`) {
			t.Errorf("%s with an unknown field: got %v", m.Name, err)
		}
	}
}

// TestEveryKindHasASchema reads the kinds of events from the sources.
func TestEveryKindHasASchema(t *testing.T) {
	t.Parallel()
	kinds := readComments(t, "..")["Kind"].Values
	if len(kinds) < 7 {
		t.Fatalf("found %d kinds", len(kinds))
	}
	for _, k := range kinds {
		m, ok := Find(k.Value)
		if !ok || !strings.HasPrefix(m.Subject, "debrief."+k.Value+".") {
			t.Errorf("kind %s: got message %q on %q", k.Value, m.Name, m.Subject)
		}
	}
	for _, verb := range []string{events.VerbContext, events.VerbReport, events.VerbFeedback} {
		if !slices.ContainsFunc(Messages(), func(m Message) bool { return m.Subject == events.ServiceSubject(verb, "{book}", "") }) {
			t.Errorf("the verb %s has no message", verb)
		}
	}
}

// TestClosedTypesRejectOtherValues: an enum is in a schema only if the decoder rejects other values.
func TestClosedTypesRejectOtherValues(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]events.Event{
		"purpose": &events.Task{ID: "a", Question: "q", Purpose: "other"},
		"gate":    &events.Edit{ID: events.NewID(), Author: "ann", Gate: "other"},
	} {
		if err := e.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if len(closedTypes) != 2 {
		t.Errorf("%d types are closed, this test knows 2", len(closedTypes))
	}
}

// decodeMessagePack decodes a map without the library of the product. Times become texts, and bytes base64.
func decodeMessagePack(t *testing.T, data []byte) map[string]any {
	t.Helper()
	r := reader{data}
	v, ok := r.value().(map[string]any)
	if !ok || len(r.data) != 0 {
		t.Fatalf("got %v and %d bytes behind it", v, len(r.data))
	}
	return v
}

type reader struct{ data []byte }

func (r *reader) take(n int) []byte {
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

// number reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *reader) number(size int) uint64 {
	return binary.BigEndian.Uint64(append(make([]byte, 8-size), r.take(size)...))
}

func (r *reader) value() any {
	switch c := r.take(1)[0]; {
	case c <= 0x7f:
		return float64(c)
	case c <= 0x8f:
		return r.mapping(int(c & 0x0f))
	case c <= 0x9f:
		return r.list(int(c & 0x0f))
	case c <= 0xbf:
		return string(r.take(int(c & 0x1f)))
	case c == 0xc0:
		return nil
	case c == 0xc2, c == 0xc3:
		return c == 0xc3
	case c >= 0xc4 && c <= 0xc6:
		return base64.StdEncoding.EncodeToString(r.take(int(r.number(1 << (c - 0xc4)))))
	case c == 0xca:
		return float64(math.Float32frombits(uint32(r.number(4))))
	case c == 0xcb:
		return math.Float64frombits(r.number(8))
	case c >= 0xcc && c <= 0xcf:
		return float64(r.number(1 << (c - 0xcc)))
	case c >= 0xd0 && c <= 0xd3:
		size := 1 << (c - 0xd0)
		return float64(int64(r.number(size)<<(64-8*size)) >> (64 - 8*size))
	case c >= 0xd9 && c <= 0xdb:
		return string(r.take(int(r.number(1 << (c - 0xd9)))))
	case c == 0xdc:
		return r.list(int(r.number(2)))
	case c == 0xde:
		return r.mapping(int(r.number(2)))
	case c == 0xc7, c == 0xd6, c == 0xd7: // timestamps of 12, 4 and 8 bytes
		size := map[byte]int{0xd6: 4, 0xd7: 8}[c]
		if c == 0xc7 {
			size = int(r.number(1))
		}
		r.take(1)
		return r.time(size).UTC().Format(time.RFC3339Nano)
	case c >= 0xe0:
		return float64(int8(c))
	default:
		panic(fmt.Sprintf("byte %#x", c))
	}
}

func (r *reader) time(size int) time.Time {
	switch size {
	case 4:
		return time.Unix(int64(r.number(4)), 0)
	case 8:
		n := r.number(8)
		return time.Unix(int64(n&(1<<34-1)), int64(n>>34))
	}
	nanoseconds := r.number(4)
	return time.Unix(int64(r.number(8)), int64(nanoseconds))
}

func (r *reader) list(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = r.value()
	}
	return out
}

func (r *reader) mapping(n int) map[string]any {
	out := make(map[string]any, n)
	for range n {
		name := r.value().(string)
		out[name] = r.value()
	}
	return out
}
