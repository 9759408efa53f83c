package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"debrief/events"
)

// Bounds of a body, far above what a request needs: a report is 7 deep, and its widest object has 17 fields. A value
// can cost 60 times its bytes once it is decoded ({} as a step), so their number is what bounds memory: about 40 MB.
const (
	maxDepth  = 64
	maxFields = 32 // of one object
	maxValues = 1 << 18
)

// decode reads a request strictly, as the package's comment says. Names of fields match without regard to case. The
// error names the field, where one is to blame.
func decode(body []byte, into any) error {
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
		return errors.New("the body: there is something after the JSON object")
	}
	return nil
}

// readable is an error of the decoder in the client's terms rather than Go's.
func readable(err error) error {
	var (
		wrong  *json.UnmarshalTypeError
		syntax *json.SyntaxError
	)
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: want %s, got %s", wrong.Field, wanted(wrong.Type), events.Beginning(wrong.Value, 40))
	case errors.As(err, &syntax):
		return fmt.Errorf("the body is no JSON: byte %d: %w", syntax.Offset, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body is no JSON: it ends too soon")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: ")) // unknown field "x"; a time that is none
}

func wanted(t reflect.Type) string {
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

// guard says what is out of bounds, or stands twice, before anything is decoded: of two fields with one name the
// library would take the last, or mix the two. It walks the bytes once, without recursion. What is no JSON it may let
// pass; the decoder does not.
func guard(data []byte) error {
	var (
		names  [maxDepth + 1][][]byte // of the fields so far, in the object that is open at a depth
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
				return nil // without an end, so no JSON
			}
			if isName(data[end+1:]) {
				seen, err := another(names[depth], data[i+1:end])
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

// stringEnd is where the quote is that ends the string which begins at i, the end of data if there is none.
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

// isName reports whether the string before rest is the name of a field.
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

// another is the names with one more, if the object may have it.
func another(names [][]byte, name []byte) ([][]byte, error) {
	quoted := func() string { return events.Beginning(string(name), 60) }
	if bytes.IndexByte(name, '\\') >= 0 {
		return nil, fmt.Errorf(`field "%s": write names without escapes`, quoted())
	}
	for _, n := range names {
		if bytes.EqualFold(n, name) { // as the decoder does
			return nil, fmt.Errorf(`field "%s" stands twice`, quoted())
		}
	}
	if len(names) == maxFields {
		return nil, fmt.Errorf("an object has more than %d fields", maxFields)
	}
	return append(names, name), nil
}
