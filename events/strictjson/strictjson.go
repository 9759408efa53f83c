// Package strictjson decodes the JSON objects that clients write by hand.
//
// Unknown and duplicate fields are errors that name the field, because a typing error should be visible. Data after the
// object is an error. So are more than 64 nested levels and more than 262,144 values. Invalid UTF-8 is replaced with
// U+FFFD, so that tool output that was truncated inside a character does not invalidate the object. Field names match
// without regard to case.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"debrief/playbook/text"
)

// Limits of a body. They are far above the needs of a message: a report has 7 levels, and its largest object 17
// fields. A decoded value can take 60 times its encoded size (for example {} as a step). The limit on values keeps
// the memory below about 40 MB.
const (
	maxDepth  = 64
	maxFields = 32 // of one object
	maxValues = 1 << 18
)

// Decode decodes body into a pointer to a zero value, with the rules in the package comment. The error names the invalid
// field if there is one.
func Decode(body []byte, into any) error {
	rest := bytes.TrimLeft(body, " \t\r\n")
	if len(rest) == 0 {
		return errors.New("the body is empty: want a JSON object")
	}
	if rest[0] != '{' {
		return errors.New("the body: want a JSON object")
	}
	if err := guard(rest); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(rest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return readable(err)
	}
	if len(bytes.TrimLeft(rest[dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("the body: unexpected data after the JSON object")
	}
	return nil
}

// readable translates an error of the JSON decoder into the terms of the client, without Go types.
func readable(err error) error {
	var (
		wrong  *json.UnmarshalTypeError
		syntax *json.SyntaxError
	)
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: want %s, got %s", wrong.Field, jsonTypeOf(wrong.Type), text.Clip(wrong.Value, 40))
	case errors.As(err, &syntax):
		return fmt.Errorf("the body: invalid JSON at byte %d: %w", syntax.Offset, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body: invalid JSON: unexpected end")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: ")) // such as an unknown field or an invalid time
}

func jsonTypeOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number, 0 or more"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "an object"
}

// guard returns an error for data beyond the limits and for duplicate fields, before decoding. For a duplicate
// field the library would use the last value, or merge both. guard walks the bytes once, without recursion. It may
// accept invalid JSON, which the decoder rejects later.
func guard(data []byte) error {
	var (
		names  [maxDepth + 1][][]byte // names[d] are the field names so far in the open object at depth d
		depth  int
		values = 1
	)
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("the body is nested deeper than %d", maxDepth)
			}
			names[depth] = names[depth][:0]
			values++
		case '}', ']':
			depth = max(depth-1, 0)
		case ',':
			values++
		case '"':
			end := stringEnd(data, i)
			if end == len(data) {
				return nil // unterminated: the decoder rejects it
			}
			if isName(data[end+1:]) {
				seen, err := appendName(names[depth], data[i+1:end])
				if err != nil {
					return err
				}
				names[depth] = seen
			}
			i = end
		}
		if values > maxValues {
			return fmt.Errorf("the body has more than %d values", maxValues)
		}
	}
	return nil
}

// stringEnd returns the index of the quote that ends the string beginning at i. For an unterminated string it
// returns len(data).
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(data)
}

// isName reports whether rest, the data after a string, shows that the string is a field name.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ':'
		}
	}
	return false
}

// appendName appends a field name. It returns an error for a duplicate name, or for too many names.
func appendName(names [][]byte, name []byte) ([][]byte, error) {
	quoted := func() string { return text.Clip(string(name), 60) }
	if bytes.IndexByte(name, '\\') >= 0 {
		return nil, fmt.Errorf(`field "%s": write names without escapes`, quoted())
	}
	for _, n := range names {
		if bytes.EqualFold(n, name) { // the decoder also ignores case
			return nil, fmt.Errorf(`duplicate field "%s"`, quoted())
		}
	}
	if len(names) == maxFields {
		return nil, fmt.Errorf("an object has more than %d fields", maxFields)
	}
	return append(names, name), nil
}
