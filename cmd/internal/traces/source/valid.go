package source

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// newDecoder returns a decoder of the JSON in raw. It accepts what package json accepts.
func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// valueBefore returns the value of n bytes that the decoder has read last.
func valueBefore(raw []byte, d *jsontext.Decoder, n int) json.RawMessage {
	end := int(d.InputOffset())
	return json.RawMessage(raw[end-n : end : end])
}

// Valid reports the same as json.Valid.
func Valid(raw []byte) bool {
	return jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// String returns the text of a JSON string. Invalid UTF-8 becomes U+FFFD.
func String(v json.RawMessage) (s string, err error) {
	if len(v) > 1 && v[0] == '"' && bytes.IndexByte(v, '\\') < 0 {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			return string(text), nil
		}
	}
	return s, json.Unmarshal(v, &s)
}
