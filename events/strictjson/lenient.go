package strictjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// maxUnknown is the maximum number of unknown fields that DecodeKnown lists.
const maxUnknown = 20

// DecodeKnown is Decode for clients of another version: it ignores unknown fields, and returns their paths in the order of the
// body, such as steps[0].tols, up to 20. Duplicate fields are errors only where the type has the field: values of unknown fields and of
// fields with their own decoder, such as json.RawMessage, may be any JSON within the limits of depth and values.
func DecodeKnown(body []byte, into any) (unknown []string, err error) {
	if err = Decode(body, into); err == nil {
		return nil, nil
	}
	rest := bytes.TrimLeft(body, " \t\r\n")
	if len(rest) == 0 || rest[0] != '{' {
		return nil, err // the reason of Decode
	}
	if err := guardSize(rest); err != nil {
		return nil, err
	}
	if !json.Valid(rest) {
		return nil, readable(json.Unmarshal(rest, new(json.RawMessage)))
	}
	target := reflect.ValueOf(into).Elem()
	target.SetZero() // Decode may have set fields
	w := walker{}
	if err := w.value("", rest, target.Type()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(rest, into); err != nil {
		return nil, readable(err)
	}
	return w.unknown, nil
}

// guardSize returns an error for data beyond the limits on depth and values. It may accept invalid JSON.
func guardSize(data []byte) error {
	depth, values := 0, 1
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
			values++
		case '}', ']':
			depth = max(depth-1, 0)
		case ',':
			values++
		case '"':
			i = stringEnd(data, i)
		}
		if depth > maxDepth {
			return fmt.Errorf("the body is nested deeper than %d", maxDepth)
		}
		if values > maxValues {
			return fmt.Errorf("the body has more than %d values", maxValues)
		}
	}
	return nil
}

// walker collects the unknown fields of a body.
type walker struct{ unknown []string }

var (
	jsonDecoder = reflect.TypeFor[json.Unmarshaler]()
	textDecoder = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// value checks a value for a type. The data is valid JSON. A value of another type is left to the decoder.
func (w *walker) value(path string, data []byte, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p := reflect.PointerTo(t); p.Implements(jsonDecoder) || p.Implements(textDecoder) {
		return nil
	}
	data = bytes.TrimLeft(data, " \t\r\n")
	switch {
	case t.Kind() == reflect.Struct && data[0] == '{':
		return w.object(path, data, t)
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && data[0] == '[':
		return w.list(path, data, t.Elem())
	}
	return nil
}

// list checks the items of a list.
func (w *walker) list(path string, data []byte, t reflect.Type) error {
	switch t.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Slice, reflect.Array:
	default:
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for i := 0; dec.More(); i++ {
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return err
		}
		if err := w.value(fmt.Sprintf("%s[%d]", path, i), item, t); err != nil {
			return err
		}
	}
	return nil
}

// object checks the fields of an object.
func (w *walker) object(path string, data []byte, t reflect.Type) error {
	fields := fieldsOf(t)
	var seen []string
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return errors.New("the body: want names of fields")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		known, typ := find(fields, name)
		switch {
		case known == "":
			if len(w.unknown) < maxUnknown {
				w.unknown = append(w.unknown, text.Clip(at, 200))
			}
			continue
		case slices.Contains(seen, known):
			return fmt.Errorf("duplicate field %q", text.Clip(at, 60))
		}
		seen = append(seen, known)
		if err := w.value(at, raw, typ); err != nil {
			return err
		}
	}
	return nil
}

// field is a field of a struct in JSON.
type field struct {
	name string
	typ  reflect.Type
}

// fieldsOf returns the fields of a struct in JSON. Those of the struct come before those of embedded structs.
func fieldsOf(t reflect.Type) (all []field) {
	var embedded []field
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "":
			typ := f.Type
			if typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			if typ.Kind() == reflect.Struct {
				embedded = append(embedded, fieldsOf(typ)...)
			}
		case !f.IsExported():
		case name == "":
			all = append(all, field{f.Name, f.Type})
		default:
			all = append(all, field{name, f.Type})
		}
	}
	return append(all, embedded...)
}

// find returns the field with a name, without regard to case like the decoder. The name is "" for an unknown one.
func find(fields []field, name string) (string, reflect.Type) {
	for _, f := range fields {
		if strings.EqualFold(f.name, name) {
			return f.name, f.typ
		}
	}
	return "", nil
}
