package modelapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var jsonTexts = []string{
	`{}`, `[]`, `null`, ` true `, `false`, `0`, `-0.5e+10`, `1E9`, `"a"`, `{"a":{"b":[1,2,{"c":null}]},"d":""}`,
	`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, `"\ud83d"`, `"\ud83d\u0041"`, `"\ude00\ud83d\ude00"`, "\"a\xffb\xc3\"", `"01234567\"89abcdef\\"`,
	"\"\x7fé\u2028\"", `"aaaaaaaa`, `"aaaaaaa`, "\"aaaaaaaaaaa\n\"", "\"aa\x00a\"", `"\x"`, `"\u12g4"`, `"\u12`, `"\`, `"`,
	``, ` `, `{`, `[`, `[1`, `[1,`, `[1,]`, `[,]`, `[1 2]`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{1:2}`, `{"a" 1}`, `{"a":1 "b":2}`,
	`01`, `-`, `1.`, `.5`, `1e`, `1e+`, `+1`, `tru`, `nul`, `nulls`, `true false`, `{}x`, "\ufeff{}", "{}\x00", `{"a":1,"a":2}`, `{"\u0061":1}`,
}

func TestDocumentAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range jsonTexts {
		checkDocument(t, []byte(text))
	}
}

// checkDocument compares a Document with package encoding/json.
func checkDocument(t *testing.T, body []byte) {
	t.Helper()
	var d Document
	root, err := d.Parse(body)
	if errors.Is(err, errTooDeep) || errors.Is(err, errTooMany) {
		return
	}
	if valid := json.Valid(body); valid != (err == nil) {
		t.Fatalf("parse %q: error %v, want valid %t", body, err, valid)
	}
	if err != nil {
		return
	}
	for i := 1; i < len(d.nodes); i++ {
		v := Value{&d, i}
		if v.Kind() != '"' {
			continue
		}
		var want string
		if err := json.Unmarshal(v.Raw(), &want); err != nil {
			t.Fatalf("Value %q of %q: %v", v.Raw(), body, err)
		}
		if got := v.Text(); got != want {
			t.Errorf("text of %q: got %q, want %q", v.Raw(), got, want)
		}
	}
	if string(root.Raw()) != strings.Trim(string(body), " \t\r\n") {
		t.Errorf("root of %q: got %q", body, root.Raw())
	}
}

func FuzzDocument(f *testing.F) {
	for _, text := range jsonTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(checkDocument)
}

func TestDocumentLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want error
	}{
		"depth at the limit":      {strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), nil},
		"depth over the limit":    {strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), errTooDeep},
		"unclosed and very deep":  {strings.Repeat(`{"a":`, 1<<20), errTooDeep},
		"values at the limit":     {"[" + strings.Repeat("0,", maxValues-2) + "0]", nil},
		"values over the limit":   {"[" + strings.Repeat("0,", maxValues) + "0]", errTooMany},
		"lists over the limit":    {"[" + strings.Repeat("[],", maxValues) + "0]", errTooMany},
		"objects over the limit":  {"[" + strings.Repeat("{},", maxValues) + "0]", errTooMany},
		"one string, many spaces": {strings.Repeat(" ", 1<<20) + `"a"` + strings.Repeat(" ", 1<<20), nil},
	} {
		var d Document
		if _, err := d.Parse([]byte(tt.body)); !errors.Is(err, tt.want) {
			t.Errorf("%s: got error %v, want %v", name, err, tt.want)
		}
	}
}

func TestGetTakesTheLastOfRepeatedKeys(t *testing.T) {
	t.Parallel()
	var d Document
	root, err := d.Parse([]byte(`{"a":"1","b":{"a":"2"},"\u0061":"3","c":[{"a":"4"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a": "3", "b/a": "2", "c/a": "", "x": "", "a/a": "", "b/x/y": ""} {
		if got := root.Text(strings.Split(path, "/")...); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
