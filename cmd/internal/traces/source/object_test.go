package source

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestValidDepth(t *testing.T) {
	for _, n := range []int{10_000, 10_001} {
		deep := []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
		if got, want := Valid(deep), json.Valid(deep); got != want {
			t.Errorf("%d lists: got %v, want %v", n, got, want)
		}
	}
}

// FuzzValues compares compact texts, strings and elements with those of package json.
func FuzzValues(f *testing.F) {
	for _, s := range []string{`[ 1, "a b\\" ", {"x" : [ ] } ]`, `"a"`, `"\u0041\xff"`, `"a\n\"\/\\\t"`, `[-0.5e+3,1E2,01,true,fals,"\q","\ud83d\ude00"]`, ` [ ] `, `[[],"]"]`, `""`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Valid(data) != json.Valid(data) {
			t.Fatalf("got valid %v", Valid(data))
		}
		if !json.Valid(data) {
			if _, err := String(data); err == nil && data[0] == '"' {
				t.Error("String accepts an invalid text")
			}
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil || !bytes.Equal(compact.Bytes(), Compact(data)) {
			t.Errorf("got %q, want %q", Compact(data), compact.Bytes())
		}
		var want string
		wrong := json.Unmarshal(data, &want)
		if got, err := String(data); (err != nil) != (wrong != nil) || err == nil && got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		var list []json.RawMessage
		isList := json.Unmarshal(data, &list) == nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("["))
		got, ok := Elements(data)
		if ok != isList || len(got) != len(list) {
			t.Fatalf("got %q, %v, want %q", got, ok, list)
		}
		for i := range got {
			if !bytes.Equal(got[i], list[i]) {
				t.Errorf("got %q, want %q", got[i], list[i])
			}
		}
	})
}

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
