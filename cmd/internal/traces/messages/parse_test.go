package messages

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"debrief/cmd/internal/traces/source"
)

// FuzzMessage compares messages with those of package json.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}],"refusal":null}`,
		`{"role":"tool","tool_call_id":"a","name":"f","content":"a\\n\\u00e9"}`, `{"role":"user","content":[{"type":"text","text":"q"}]}`,
		`{"role":1}`, `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}},null]}`, `{"role":null,"role":"user","function_call":{"name":"g"}}`,
		"{\"role\":\"\xff\"}", `{"tool_calls":[{"id":"a","id":null,"function":{"name":"f"},"function":{"arguments":null}}]}`, `{"tool_calls":{}}`, `{"thought":"t","is_demo":true,"tool_call_ids":["a"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || !bytes.Equal(bytes.ToLower(data), data) { // package json ignores the case of names
			return
		}
		want := &Message{}
		wrong := json.Unmarshal(data, want)
		got, err := parseMessage(source.Objects([]json.RawMessage{data})[0])
		if (err != nil) != (wrong != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, error %v\nwant %+v, error %v", got, err, want, wrong)
		}
	})
}
