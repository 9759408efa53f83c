package chat

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answers are typical model answers with the expected object; "" if an error is expected.
var answers = []struct {
	name   string
	text   string
	finish string
	object string
	err    string // a part of the error when there is no object
}{
	{name: "a bare object", text: `{"a":1}`, object: `{"a":1}`},
	{name: "blank space around it", text: "\n\t {\"a\":1}\r\n ", object: `{"a":1}`},
	{name: "an empty object", text: `{}`, object: `{}`},
	{name: "null fields stay null", text: `{"bullet_ids":null,"final_answer":null}`, object: `{"bullet_ids":null,"final_answer":null}`},
	{name: "a byte order mark before it", text: "\ufeff{\"a\":1}", object: `{"a":1}`},
	{name: "bytes that are no UTF-8 are replaced", text: "{\"a\":\"\xff\"}", object: "{\"a\":\"\uFFFD\"}"},

	{name: "nothing", text: ``, err: "no JSON object"},
	{name: "only blanks", text: " \n ", err: "no JSON object"},
	{name: "prose", text: `I am sorry, I cannot do that.`, err: "no JSON object"},
	{name: "prose with brackets of its own", text: `Fill in {context}, see [1] and [below], or {x | y}.`, err: "list of 1"},
	{name: "a number", text: `42`, err: "no JSON object"},
	{name: "null", text: `null`, err: "no JSON object"},

	{name: "a list of several", text: `[{"a":1},{"a":2}]`, err: "list of 2"},
	{name: "a list of one object passes for it", text: `[{"a":1}]`, object: `{"a":1}`},
	{name: "an empty list", text: `[]`, err: "list of 0"},
	{name: "a list of one text", text: `["a"]`, err: "list of 1"},

	{name: "after a preamble", text: `Sure! Here is the JSON: {"a":1}`, object: `{"a":1}`},
	{name: "before a postscript", text: `{"a":1} I hope this {helps}!`, object: `{"a":1}`},
	{name: "after a preamble with brackets", text: `As {context} says [1], see [below]: {"a":1}`, object: `{"a":1}`},
	{name: "in a fence", text: "```json\n{\"a\":1}\n```", object: `{"a":1}`},
	{name: "in a fence without a language", text: "Here:\n```\n{\"a\":1}\n```\nDone.", object: `{"a":1}`},
	{name: "in a fence that never closes", text: "```json\n{\"a\":1}", object: `{"a":1}`},
	{name: "the fenced one of two", text: "Given {\"question\":\"what is the longest of all?\"} I say\n```json\n{\"a\":1}\n```", object: `{"a":1}`},
	{name: "the longer one of two", text: `An example is {"a":0}. The answer: {"a":1,"b":2}`, object: `{"a":1,"b":2}`},
	{name: "braces within strings", text: `{"a":"use {x} and } and ] and \"{\"","b":"[" }`, object: `{"a":"use {x} and } and ] and \"{\"","b":"[" }`},
	{name: "a fence within a string", text: "Here: {\"a\":\"```json\\n{\\\"b\\\":2}\\n```\"}", object: "{\"a\":\"```json\\n{\\\"b\\\":2}\\n```\"}"},
	{name: "doubled braces of a template", text: `{{"a":1}}`, object: `{"a":1}`},

	{name: "after a thought", text: `<think>Maybe {"a":0}? No.</think>{"a":1}`, object: `{"a":1}`},
	{name: "after two thoughts", text: "<think>x</think>\n<thinking>{\"long\":\"thought\"}</thinking>\n{\"a\":1}", object: `{"a":1}`},
	{name: "after a thought without its opening tag", text: `Maybe {"a":0,"b":0}? No.</think>{"a":1}`, object: `{"a":1}`},
	{name: "a thought that never ends", text: `<think>Maybe {"a":0}`, err: "no JSON object"},
	{name: "a tag within the answer", text: `{"a":"<think>x</think>{}"}`, object: `{"a":"<think>x</think>{}"}`},
	{name: "a tag within the answer after a preamble", text: `Here: {"a":"no </think> here"}`, object: `{"a":"no </think> here"}`},

	{name: "a trailing comma", text: `{"a":[1,2,],}`, object: `{"a":[1,2]}`},
	{name: "single quotes", text: `{'a': 'b'}`, object: `{"a": "b"}`},
	{name: "keys without quotes", text: `{a: 1}`, object: `{"a": 1}`},
	{name: "Python's constants", text: `{"a": True, "b": None}`, object: `{"a": true, "b": null}`},
	{name: "a comment", text: "{// why\n\"a\":1}", object: "{\n\"a\":1}"},
	{name: "a line break within a string", text: "{\"a\":\"x\ny\"}", object: `{"a":"x\ny"}`},
	{name: "quotes within a string", text: `{"a":"he said "hi" to me"}`, object: `{"a":"he said \"hi\" to me"}`},
	{name: "a bracket forgotten at the end", text: `{"operations":[{"type":"ADD"},{"type":"TAG"}]`, object: `{"operations":[{"type":"ADD"},{"type":"TAG"}]}`},
	{name: "a bracket forgotten in a fence", text: "```json\n{\"a\":[1,2]\n```\nThat is all.", object: "{\"a\":[1,2]}"},
	{name: "a bracket forgotten in the middle", text: `{"a":[1,2}`, object: `{"a":[1,2]}`},

	{name: "cut by the limit", text: `{"reasoning":"because","operations":[{"type":"ADD"},{"ty`, finish: "length", err: "cut off"},
	{name: "cut by the limit after a preamble", text: `Here: {"a":"b`, finish: "length", err: "cut off"},
	{name: "cut by the limit after the object", text: `{"a":1} And furth`, finish: "length", object: `{"a":1}`},
	{name: "damaged and cut is not repaired", text: `{"a":[1,2,],} And furth`, finish: "length", err: "cut off"},
	{name: "cut in the middle and nobody says so", text: `{"a":"b","c":"d`, object: `{"a":"b","c":"d"}`},
	{name: "a cut list does not leave its first entries", text: `[{"a":1},{"a":2},{"a"`, finish: "length", err: "cut off"},

	{name: "nested too deep", text: strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat(`}`, 65), err: "nested"},
	{name: "brackets without end", text: strings.Repeat(`[`, 1000), err: "nested"},
	{name: "too long", text: `{"a":"` + strings.Repeat("x", maxAnswer) + `"}`, err: "bytes long"},
	{name: "too long to repair", text: `{"a":"` + strings.Repeat("x", maxRepair) + `",}`, err: "too long to repair"},
	{name: "beyond repair", text: `{"a":1 ! ? "b" , , : }`, err: "invalid"},
}

func TestObject(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseObject(Reply{Text: tt.text, Finish: tt.finish})
			if tt.object == "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %s, error %v, want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("got error %v, want %s", err, tt.object)
			}
			if diff := cmp.Diff(value(t, tt.object), value(t, string(got))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestObjectOrList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"a list", `[{"a":1},{"a":2}]`, `[{"a":1},{"a":2}]`},
		{"an object", `Here: {"a":[1,2]}`, `{"a":[1,2]}`},
		{"a list after a footnote", `As [1] says: [{"a":1}]`, `[{"a":1}]`},
		{"a list in a fence", "```json\n[1, 2,]\n```", `[1,2]`},
		{"a list without its end", `[{"a":1},{"a":2}`, `[{"a":1},{"a":2}]`},
		{"a stray quote in prose", `He wrote ["x and left. {"a":1}`, `{"a":1}`},
		{"neither", `Nothing.`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseObjectOrList(Reply{Text: tt.text})
			if tt.want == "" {
				if err == nil {
					t.Fatalf("got %s, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatalf("got error %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(value(t, tt.want), value(t, string(got))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A text with many unclosed brackets must not take quadratic time.
func TestObjectInLinearTime(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{`["`, `["",`, `[1`, `{"`, `{"a":"`, `{a:`, `[{`, `{}`, `[]"`, "```json\n[\"", `</think>`, `<think>{</think>`, `{'`, `["\`} {
		text := strings.Repeat(pattern, maxAnswer/4/len(pattern))
		start := time.Now()
		if raw, err := ParseObject(Reply{Text: text, Finish: "length"}); err == nil && !json.Valid(raw) {
			t.Errorf("%q repeated: got invalid JSON", pattern)
		}
		if took := time.Since(start); took > 20*time.Second { // measured: 0.05 s, and 1 s with -race; quadratic takes minutes
			t.Errorf("%q repeated: took %v", pattern, took)
		}
	}
}

func FuzzObject(f *testing.F) {
	for _, s := range answers {
		if len(s.text) < 4<<10 {
			f.Add(s.text, s.finish)
		}
	}
	f.Fuzz(func(t *testing.T, text, finish string) {
		if len(text) > 4<<10 {
			t.Skip("repairs of long texts are slow")
		}
		r := Reply{Text: text, Finish: finish}
		for _, read := range []func(Reply) (json.RawMessage, error){ParseObject, ParseObjectOrList} {
			raw, err := read(r)
			if (raw == nil) == (err == nil) {
				t.Fatalf("got %q and error %v, want one of them", raw, err)
			}
			if err == nil && (!json.Valid(raw) || !strings.ContainsRune("{[", rune(raw[0]))) {
				t.Fatalf("got %q, want a JSON object or list", raw)
			}
		}
		if raw, err := ParseObject(r); err == nil && raw[0] != '{' {
			t.Fatalf("got %q, want an object", raw)
		}
	})
}

func value(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
