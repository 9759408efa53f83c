package source

import (
	"encoding/json"
	"testing"
)

// FuzzObject compares the fields of an object with those of package json.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":1,"b\"\u0041":[{"}":"]"}],"a":null, "c" : "x\\"}`))
	f.Add([]byte(`{"a":{},"b":[],"c":true}`))
	f.Add([]byte(`{"a":1,}`))
	f.Add([]byte("{\"\xa2a\":11}")) // invalid UTF-8 in a name
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := NewObject(data)
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil {
			return // NewObject may accept invalid values
		}
		if err != nil {
			t.Fatalf("got %v for a valid object", err)
		}
		for name, value := range want {
			got := o.Get(name)
			if string(value) == "null" && got != nil || string(value) != "null" && string(got) != string(value) {
				t.Errorf("field %q: got %s, want %s", name, got, value)
			}
		}
	})
}
