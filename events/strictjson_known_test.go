package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Name string `json:"name"`
}

type base struct {
	Book  string          `json:"book,omitempty"`
	Shade json.RawMessage `json:"shade"`
}

// outer has an embedded struct, a field that shadows one of it, and fields with their own decoders.
type outer struct {
	base
	Shade   string          `json:"shade"`
	Items   []inner         `json:"items"`
	One     *inner          `json:"one"`
	Raw     json.RawMessage `json:"raw"`
	At      time.Time       `json:"at,omitzero"`
	Skipped string          `json:"-"`
	Plain   int
}

func TestDecodeKnown(t *testing.T) {
	t.Parallel()
	raw := `{"raw":{"a":1,"A":2,"b":3}}`
	for _, test := range []struct {
		name, body string
		unknown    []string
		want       outer
	}{
		{"only known", `{"book":"b","shade":"s","items":[{"name":"n"}],"plain":3}`, nil, outer{base: base{Book: "b"}, Shade: "s", Items: []inner{{"n"}}, Plain: 3}},
		{"unknown", `{"bok":{"book":[1]},"book":"b","skipped":1}`, []string{"bok", "skipped"}, outer{base: base{Book: "b"}}},
		{"unknown below", `{"items":[{"name":"n"},{"nam":1}],"one":{"x":null}}`, []string{"items[1].nam", "one.x"}, outer{Items: []inner{{"n"}, {}}, One: new(inner)}},
		{"any names in raw values", raw, nil, outer{Raw: json.RawMessage(raw[7 : len(raw)-1])}},
		{"only unknown", ` { "x" : [ 1 ] , "y" : {} , "z":2 } `, []string{"x", "y", "z"}, outer{}},
		{"another case", `{"BOOK":"b","x":1}`, []string{"x"}, outer{base: base{Book: "b"}}},
		{"escaped name", `{"bo\u006fk":"b"}`, nil, outer{base: base{Book: "b"}}},
		{"time", `{"at":"2026-11-23T00:00:00Z","y":1}`, []string{"y"}, outer{At: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)}},
	} {
		var got outer
		unknown, err := DecodeKnown([]byte(test.body), &got)
		if err != nil || !slices.Equal(unknown, test.unknown) || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, %v, %v\nwant %+v, %v", test.name, got, unknown, err, test.want, test.unknown)
		}
	}
	for _, test := range []struct{ name, body, want string }{
		{"empty", "", "empty"},
		{"a list", "[]", "object"},
		{"invalid", `{"x":1`, "invalid JSON"},
		{"more after it", `{"x":1}{}`, "unexpected data after"},
		{"a duplicate", `{"book":"a","x":1,"Book":"b"}`, `duplicate field "Book"`},
		{"another type", `{"book":1,"x":1}`, "book: want a string"},
		{"too deep", `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "deeper than 64"},
		{"too many values", `{"x":[` + strings.Repeat("1,", maxJSONTokens) + `1]}`, "values"},
		{"a duplicate below an unknown field", `{"x":{"a":1,"a":2}}`, `duplicate field "x.a"`},
		{"too many unknown fields", "{" + manyFields(maxUnknown+1) + "}", `unknown field "f20"`},
	} {
		if _, err := DecodeKnown([]byte(test.body), new(outer)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	if unknown, err := DecodeKnown([]byte("{"+manyFields(maxUnknown)+"}"), new(outer)); err != nil || len(unknown) != maxUnknown {
		t.Errorf("got %d unknown fields, %v", len(unknown), err)
	}
}

func manyFields(n int) string {
	var fields []string
	for i := range n {
		fields = append(fields, fmt.Sprintf(`"f%d":0`, i))
	}
	return strings.Join(fields, ",")
}

// FuzzDecodeKnown: a body that DecodeStrict accepts gives the same value without unknown fields. Each other accepted body is a JSON object.
func FuzzDecodeKnown(f *testing.F) {
	for _, seed := range []string{`{"book":"b"}`, `{"items":[{"name":"n","x":{}}],"x":[{}]}`, `{"one":null,"One":1}`, `{"raw":{"a":1,"a":2}}`, `[`, `{}x`, "{\"\xff\":1}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var strict, lenient outer
		unknown, err := DecodeKnown(body, &lenient)
		if DecodeStrict(body, &strict) == nil && (err != nil || len(unknown) > 0 || !reflect.DeepEqual(strict, lenient)) {
			t.Errorf("got %+v, %v, %v, want %+v", lenient, unknown, err, strict)
		}
		if err == nil && !json.Valid(body) {
			t.Error("accepts invalid JSON")
		}
	})
}
