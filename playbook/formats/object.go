package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// member is a name and a value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// object is a JSON object with its members in file order, which a map would lose. A name may occur more than once.
type object []member

// parseObject decodes an object from valid JSON.
func parseObject(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: name.(string)} // in an object, every other token is a string
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		o = append(o, m)
	}
	return o, nil
}

// unique removes duplicate names. It keeps the first position and the last value, like other JSON parsers.
func (o object) unique() object {
	place := make(map[string]int, len(o))
	kept := o[:0]
	for _, m := range o {
		if i, ok := place[m.name]; ok {
			kept[i] = m
			continue
		}
		place[m.name] = len(kept)
		kept = append(kept, m)
	}
	return kept
}

func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// encode returns o as JSON without white space between its members. The values are copied unchanged.
func (o object) encode() json.RawMessage {
	size := 2
	for _, m := range o {
		size += len(m.name) + len(m.value) + 4
	}
	buf := append(make([]byte, 0, size), '{')
	for i, m := range o {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(append(append(buf, encode(m.name)...), ':'), m.value...)
	}
	return append(buf, '}')
}

// encode returns v as JSON without escaping < > &. It panics on an error, so it is only for values that cannot fail:
// strings, structs of them, and JSON that was decoded before.
func encode(v any) json.RawMessage {
	raw, err := encodeValue(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func encodeValue(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// checkJSON returns an error with the line number if the text is not valid JSON.
func checkJSON(text string) error {
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &syntax):
		return err
	case syntax.Offset >= int64(len(text)):
		return fmt.Errorf("the JSON is cut off in line %d: %w", 1+strings.Count(text, "\n"), err)
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(text[:syntax.Offset], "\n"), err)
}

// indent formats JSON with two spaces and a final line end.
func indent(raw json.RawMessage) ([]byte, error) {
	var buf bytes.Buffer
	err := json.Indent(&buf, raw, "", "  ")
	buf.WriteByte('\n')
	return buf.Bytes(), err
}
