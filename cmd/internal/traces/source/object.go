// Package source reads the files of recorded runs: it decompresses and decodes them, and splits them into lines, JSON objects
// and records of tables. It repairs damaged lines, bounds memory, and counts omitted content. It knows no formats of
// recorders and no events.
package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Object is a JSON object, split into its fields without decoding their values.
type Object struct {
	Raw    []byte
	Fields []Field
	// Header has the fields of the container before the list that holds the object; see OpenContainer.
	Header *Object
}

// Field is a field of an Object. Its value may be invalid JSON inside.
type Field struct {
	Name  string
	Value json.RawMessage
}

// Get returns the value of a field, or nil if the field is missing or null. The last one of several equal fields counts, as
// in package json.
func (o *Object) Get(name string) json.RawMessage {
	if o == nil {
		return nil
	}
	for i := len(o.Fields) - 1; i >= 0; i-- {
		if o.Fields[i].Name != name {
			continue
		}
		if string(o.Fields[i].Value) == "null" {
			return nil
		}
		return o.Fields[i].Value
	}
	return nil
}

// Has reports whether all fields have a value other than null.
func (o *Object) Has(names ...string) bool {
	for _, name := range names {
		if o.Get(name) == nil {
			return false
		}
	}
	return true
}

// HasAny reports whether one of the fields has a value other than null.
func (o *Object) HasAny(names ...string) bool {
	for _, name := range names {
		if o.Get(name) != nil {
			return true
		}
	}
	return false
}

// First returns the first of the fields that has a value, or nil.
func (o *Object) First(names ...string) json.RawMessage {
	for _, name := range names {
		if v := o.Get(name); v != nil {
			return v
		}
	}
	return nil
}

// Text returns the value of a field if it is a JSON string, else "".
func (o *Object) Text(name string) (s string) {
	if v := o.Get(name); len(v) > 0 && v[0] == '"' {
		s, _ = String(v)
	}
	return s
}

// Elements returns the elements of a valid JSON list without decoding them, and reports whether raw is one.
func Elements(raw []byte) (list []json.RawMessage, ok bool) {
	rest := trimSpace(raw)
	if len(rest) == 0 || rest[0] != '[' {
		return nil, false
	}
	for rest = trimSpace(rest[1:]); len(rest) > 0 && rest[0] != ']'; rest = trimSpace(rest) {
		n := valueLength(rest)
		if n == 0 {
			return nil, false
		}
		list = append(list, json.RawMessage(rest[:n:n]))
		if rest = trimSpace(rest[n:]); len(rest) > 0 && rest[0] == ',' {
			rest = rest[1:]
		}
	}
	return list, len(rest) > 0
}

// Kind returns the first byte of the value of a field, such as '[' for a list, or 0.
func (o *Object) Kind(name string) byte {
	if v := o.Get(name); len(v) > 0 {
		return v[0]
	}
	return 0
}

// Child returns the object in a field, or nil for another value.
func (o *Object) Child(name string) *Object { return AsObject(o.Get(name)) }

// AsObject returns an object, or nil for another or an invalid value.
func AsObject(raw json.RawMessage) *Object {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o, err := NewObject(raw)
	if err != nil {
		return nil
	}
	return o
}

// AsList returns the elements of a list, or nil for another or an invalid value.
func AsList(raw json.RawMessage) (list []json.RawMessage) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// Objects splits the elements of a list into their fields. For an element that is not an object, only its text is set.
func Objects(list []json.RawMessage) []*Object {
	objects := make([]*Object, len(list))
	for i, raw := range list {
		if objects[i] = AsObject(raw); objects[i] == nil {
			objects[i] = &Object{Raw: raw}
		}
	}
	return objects
}

// Names returns the names of the first fields for an error, such as `"a", "b" and 3 more`.
func (o *Object) Names() string {
	const most = 8
	var list []string
	for i := range o.Fields[:min(most, len(o.Fields))] {
		list = append(list, fmt.Sprintf("%.40q", o.Fields[i].Name))
	}
	s := strings.Join(list, ", ")
	if n := len(o.Fields) - most; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// NewObject splits an object into its fields. The values keep pointing into raw, and may be invalid JSON inside. Null has no
// fields. An error is that of package json.
func NewObject(raw []byte) (*Object, error) {
	o := &Object{Raw: raw}
	if o.split(raw) {
		return o, nil
	}
	var v struct{}
	if err := Decode(raw, &v); err != nil {
		return nil, err
	}
	if string(bytes.TrimSpace(raw)) != "null" {
		return nil, errors.New("not valid JSON")
	}
	return o, nil
}

// split finds the fields and reports whether raw looks like an object. It checks brackets and quotes only.
func (o *Object) split(raw []byte) bool {
	rest := bytes.TrimSpace(raw)
	if len(rest) < 2 || rest[0] != '{' {
		return false
	}
	o.Fields = make([]Field, 0, 8)
	for rest = trimSpace(rest[1:]); len(rest) > 0 && rest[0] != '}'; {
		n := valueLength(rest)
		if n < 2 || rest[0] != '"' {
			return false
		}
		name := commonName(rest[1 : n-1])
		if plain := strings.IndexByte(name, '\\') < 0 && utf8.ValidString(name); !plain && json.Unmarshal(rest[:n], &name) != nil {
			return false
		}
		if rest = trimSpace(rest[n:]); len(rest) == 0 || rest[0] != ':' {
			return false
		}
		rest = trimSpace(rest[1:])
		if n = valueLength(rest); n == 0 {
			return false
		}
		o.Fields = append(o.Fields, Field{name, json.RawMessage(rest[:n:n])})
		if rest = trimSpace(rest[n:]); len(rest) > 0 && rest[0] == ',' {
			if rest = trimSpace(rest[1:]); len(rest) == 0 || rest[0] != '"' {
				return false
			}
		} else if len(rest) == 0 || rest[0] != '}' {
			return false
		}
	}
	return len(rest) == 1
}

// commonNames are the usual names of fields. Objects share these strings, which saves memory.
var commonNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range [...]string{"arguments", "content", "function", "id", "input", "is_error", "messages", "model", "name", "output", "role", "score", "text", "tool_call_id", "tool_calls", "type"} {
		names[name] = name
	}
	return names
}()

func commonName(name []byte) string {
	if common, ok := commonNames[string(name)]; ok {
		return common
	}
	return string(name)
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// valueLength returns the length of the value at the beginning of b, or 0 if it is incomplete.
func valueLength(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringLength(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i // the end of a number, true, false or null
			}
			depth--
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return 0
}

// stringLength returns the length of the string at the beginning of b with its quotes, or 0 if it is incomplete.
func stringLength(b []byte) int {
	for i := 1; i < len(b); i++ {
		end := bytes.IndexByte(b[i:], '"')
		if end < 0 {
			return 0
		}
		i += end
		escapes := 0
		for j := i - 1; j > 0 && b[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return 0
}

// Decode calls json.Unmarshal and returns errors that name the field.
func Decode(raw []byte, v any) error {
	err := json.Unmarshal(raw, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Errorf("got a JSON %s, want an object", wrong.Value)
		}
		return fmt.Errorf("field %s: got a JSON %s, want %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	return nil
}

// TextField returns the text of the first of the fields that is a string or a number.
func TextField(o *Object, names []string) string {
	for _, name := range names {
		if s := o.Text(name); s != "" {
			return s
		}
		var n json.Number
		if v := o.Get(name); v != nil && v[0] != '"' && json.Unmarshal(v, &n) == nil {
			return n.String()
		}
	}
	return ""
}
