package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"debrief/playbook/text"
)

// Limits of a body. They are far above the needs of a message: a report has 7 levels. A decoded value can take 60 times its
// encoded size (for example {} as a step). The limit on tokens keeps the memory below about 40 MB.
const (
	maxJSONDepth  = 64
	maxJSONTokens = 1 << 18 // names, values, and the ends of objects and lists
)

// maxUnknown is the maximum number of unknown fields that DecodeKnown ignores.
const maxUnknown = 20

// jsonOptions are the options of both decoders. A duration is a number of nanoseconds, as encoding/json writes it.
var jsonOptions = json.JoinOptions(
	json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.FormatDurationAsNano(true),
)

// DecodeStrict decodes body into a pointer to a zero value. It decodes the JSON objects that clients write by hand. The error names
// the invalid field, if there is one, and says what is accepted.
//
// Unknown and duplicate fields are errors that name the field, because a typing error should be visible. Data after the
// object is an error. The object has at most 64 nested levels, and 262,144 names and values. Invalid UTF-8 is replaced
// with U+FFFD, because tool output is often truncated inside a character. Field names match without regard to case, "_" and "-":
// toolCalls is tool_calls.
func DecodeStrict(body []byte, into any) error {
	if err := checkJSON(body); err != nil {
		return err
	}
	return readableJSON(json.Unmarshal(body, into, jsonOptions))
}

// DecodeKnown is DecodeStrict for clients of another version: it ignores up to 20 unknown fields, and returns their paths in the
// order of the body, such as steps[0].tols. Further unknown fields are errors.
func DecodeKnown(body []byte, into any) ([]string, error) {
	if err := checkJSON(body); err != nil {
		return nil, err
	}
	var unknown []string
	for {
		reflect.ValueOf(into).Elem().SetZero() // the attempt before may have set fields
		err := json.Unmarshal(body, into, jsonOptions)
		var field *json.SemanticError
		if !errors.As(err, &field) || !errors.Is(err, json.ErrUnknownName) || len(unknown) == maxUnknown {
			return unknown, readableJSON(err)
		}
		unknown = append(unknown, text.Clip(jsonPath(field.JSONPointer), 200))
		body, err = withoutField(body, field.ByteOffset)
		if err != nil {
			return nil, err
		}
	}
}

// withoutField returns a body without the field whose name starts at an offset.
func withoutField(body []byte, nameOffset int64) ([]byte, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsonOptions)
	start := int64(0) // end of the token before the name
	isFirst := true   // that token begins the object
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, readableJSON(err)
		}
		if dec.InputOffset() > nameOffset {
			break
		}
		start = dec.InputOffset()
		isFirst = token.Kind() == '{'
	}
	if err := dec.SkipValue(); err != nil {
		return nil, readableJSON(err)
	}
	rest := body[dec.InputOffset():]
	if isFirst { // the comma is after the field, not before it
		rest = bytes.TrimPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(","))
	}
	return slices.Concat(body[:start], rest), nil
}

// checkJSON returns an error if a body is not a JSON object, has a duplicate name or exceeds the limits.
func checkJSON(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsonOptions)
	switch kind := dec.PeekKind(); {
	case len(bytes.TrimLeft(body, " \t\r\n")) == 0:
		return errors.New("the body is empty: want a JSON object")
	case kind != '{':
		return errors.New("the body: want a JSON object")
	}
	for range maxJSONTokens {
		_, err := dec.ReadToken()
		if errors.Is(err, io.EOF) { // the end between two values; inside a value it is io.ErrUnexpectedEOF
			return nil
		}
		if err != nil {
			return readableJSON(err)
		}
		if dec.StackDepth() > maxJSONDepth {
			return fmt.Errorf("the body is nested deeper than %d", maxJSONDepth)
		}
		if dec.StackDepth() == 0 && len(bytes.TrimLeft(body[dec.InputOffset():], " \t\r\n")) > 0 {
			return errors.New("the body: unexpected data after the JSON object")
		}
	}
	return fmt.Errorf("the body has more than %d names and values", maxJSONTokens)
}

// readableJSON translates an error of the JSON decoder into the terms of the client, without Go types.
func readableJSON(err error) error {
	var (
		syntax *jsontext.SyntacticError
		wrong  *json.SemanticError
	)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return fmt.Errorf("duplicate field %q", text.Clip(jsonPath(syntax.JSONPointer), 60))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body: invalid JSON: unexpected end")
	case errors.As(err, &syntax):
		return fmt.Errorf("the body: invalid JSON at byte %d: %w", syntax.ByteOffset, syntax.Err)
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &wrong):
		return fmt.Errorf("unknown field %q", text.Clip(jsonPath(wrong.JSONPointer), 200))
	case errors.As(err, &wrong):
		return wrongJSONValue(wrong)
	}
	return err
}

// wrongJSONValue says which value a field accepts, and which it got.
func wrongJSONValue(err *json.SemanticError) error {
	field := jsonPath(err.JSONPointer)
	isWrongNumber := errors.Is(err.Err, strconv.ErrSyntax) || errors.Is(err.Err, strconv.ErrRange)
	switch {
	case err.GoType == reflect.TypeFor[time.Time]():
		return fmt.Errorf("%s: want a time such as 2026-11-20T12:00:00Z", field)
	case err.Err != nil && !isWrongNumber: // of a type with its own decoder
		return fmt.Errorf("%s: %w", field, err.Err)
	}
	got := jsonKinds[err.JSONKind]
	if isWrongNumber {
		got += " " + text.Clip(string(err.JSONValue), 40)
	}
	return fmt.Errorf("%s: want %s, got %s", field, acceptedJSON(err.GoType), got)
}

// jsonKinds are the names of the kinds of JSON values.
var jsonKinds = map[jsontext.Kind]string{
	'n': "null", 't': "true", 'f': "false", '"': "a string", '{': "an object", '[': "a list", '0': "the number",
}

// acceptedJSON returns the name of the JSON values of a type.
func acceptedJSON(t reflect.Type) string {
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

// jsonPath returns a pointer in the spelling of the other messages: steps[0].text for /steps/0/text.
func jsonPath(p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	return b.String()
}
