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
)

// Object is a JSON object, split into its fields without decoding their values.
type Object struct {
	Raw    []byte
	Fields []Field
	// Header has the fields of the container before the list that holds the object; see OpenContainer.
	Header *Object
}

// Field is a field of an Object.
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

// Elements returns the elements of a JSON list without decoding them, and reports whether raw is one.
func Elements(raw []byte) (list []json.RawMessage, ok bool) {
	d := newDecoder(raw)
	if d.PeekKind() != '[' {
		return nil, false
	}
	_, _ = d.ReadToken()
	for d.PeekKind() != ']' {
		v, err := d.ReadValue()
		if err != nil {
			return nil, false
		}
		list = append(list, valueBefore(raw, d, len(v)))
	}
	_, err := d.ReadToken()
	return list, err == nil
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

// NewObject splits an object into its fields. The values keep pointing into raw. Null has no fields. An error is that of package json.
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

// split finds the fields and reports whether raw is an object.
func (o *Object) split(raw []byte) bool {
	d := newDecoder(raw)
	if d.PeekKind() != '{' {
		return false
	}
	_, _ = d.ReadToken()
	o.Fields = make([]Field, 0, 8)
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return false
		}
		f := Field{Name: commonName(name)}
		v, err := d.ReadValue()
		if err != nil {
			return false
		}
		f.Value = valueBefore(raw, d, len(v))
		o.Fields = append(o.Fields, f)
	}
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	return len(bytes.TrimSpace(raw[d.InputOffset():])) == 0
}

// commonNames are the usual names of fields. Objects share these strings, which saves memory.
var commonNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range [...]string{"arguments", "content", "function", "id", "input", "is_error", "messages", "model", "name", "output", "role", "score", "text", "tool_call_id", "tool_calls", "type"} {
		names[name] = name
	}
	return names
}()

// commonName returns the text of a JSON string.
func commonName(raw []byte) string {
	if common, ok := commonNames[string(raw[1:len(raw)-1])]; ok {
		return common
	}
	name, _ := String(raw)
	return name
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
