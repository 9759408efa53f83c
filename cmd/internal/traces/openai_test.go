package traces

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"debrief/cmd/internal/traces/source"
)

// FuzzChatLog compares the fields of a log with those of package json.
func FuzzChatLog(f *testing.F) {
	for _, s := range []string{
		`{"id":7,"messages":[{"role":"user","content":"q"},null,7],"score":0.5,"metadata":{"x":[1]},"tools":[]}`, `{"messages":null,"id":null}`,
		`{"messages":[{}],"messages":[]}`, `{"messages":{}}`, `{"messages":[1]},`, `{"messages":[1,]}`, `{"messages":[],"model":"m","usage":{"prompt_tokens":3}}`,
		`{"request":{"messages":[{"role":"user"}]},"response":{"choices":[{"message":{}}]}}`, `{"outcome":"success","reward":1,"created":1,"object":"x","task_id":"a"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := source.NewObject(data)
		if err != nil || !bytes.Equal(bytes.ToLower(data), data) { // package json ignores the case of names
			return
		}
		var got, want chatLog
		wrong := json.Unmarshal(data, &want)
		err = got.parse(o)
		if (err != nil) != (wrong != nil) {
			t.Fatalf("got error %v, want %v", err, wrong)
		}
		for _, l := range []*chatLog{&got, &want} {
			if len(l.Messages) == 0 {
				l.Messages = nil
			}
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	})
}
