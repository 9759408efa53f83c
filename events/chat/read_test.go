package chat

import (
	"encoding/json"
	"errors"
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
	{name: "too long to repair", text: `{"a":"` + strings.Repeat("x", 64<<10) + `",}`, err: "too long to repair"},
	{name: "beyond repair", text: `{"a":1 ! ? "b" , , : }`, err: "invalid"},
}

func TestObject(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseObject(Reply{Text: tt.text, Finish: tt.finish}, "")
			if tt.object == "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, error %v, want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatalf("got error %v, want %s", err, tt.object)
			}
			if diff := cmp.Diff(valueOf(t, tt.object), valueOf(t, textOf(t, got))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The reply is the last complete object that has the required field, in each of the forms that models and servers give it.
func TestRequiredField(t *testing.T) {
	t.Parallel()
	const draft, reply = `{"reasoning":"Wait.","key_insight":"draft"}`, `{"reasoning":"r","key_insight":"k"}`
	encoded := textOf(t, reply)
	for _, tt := range []struct{ name, text, want string }{
		{"second thoughts", draft + "\nNo, better:\n" + reply, "k"},
		{"second thoughts, the first one in a fence", "```json\n" + draft + "\n```\nNo:\n" + reply, "k"},
		{"second thoughts, the first one longer", `{"reasoning":"a long draft with many words","key_insight":"draft"} ` + reply, "k"},
		{"second thoughts with a small error", draft + ` {"reasoning":"r","key_insight":"k",}`, "k"},
		{"an object without the field behind it", reply + ` Note: {"confidence":0.9,"comment":"this object is longer than the reply"}`, "k"},
		{"a draft that does not end before it", reply + ` and {"key_insight":"dra`, "k"},
		{"a list with a draft and the reply", "[" + draft + "," + reply + "]", "k"},
		{"a JSON text", encoded, "k"},
		{"a JSON text in a fence", "```json\n" + encoded + "\n```", "k"},
		{"a JSON text without its quotes", strings.Trim(encoded, `"`), "k"},
		{"a JSON text of a JSON text", textOf(t, encoded), "k"},
		{"a JSON text with line breaks", strings.ReplaceAll(encoded, ",", ",\n"), "k"},
		{"inside a field", `{"reflection":` + reply + `}`, "k"},
		{"inside a field, as a JSON text", `{"name":"reflector","arguments":` + encoded + `}`, "k"},
		{"inside a field with another name of the field", `{"insight":` + reply + `}`, "k"},
		{"insight", `{"reasoning":"r","insight":"k"}`, "k"},
		{"keyInsight", `{"reasoning":"r","keyInsight":"k"}`, "k"},
		{"Key Insight", `{"reasoning":"r","Key Insight":"k"}`, "k"},
		{"lesson", `{"reasoning":"r","lesson":"k"}`, "k"},
		{"an empty field beside another name", `{"reasoning":"r","key_insight":"","takeaway":"k"}`, "k"},
		{"an empty field", `{"reasoning":"r","key_insight":null}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseObject(Reply{Text: tt.text, Finish: "stop"}, "key_insight")
			if err != nil || got.Text("key_insight") != tt.want {
				t.Errorf("got %v, error %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestMissingField(t *testing.T) {
	t.Parallel()
	got, err := ParseObject(Reply{Text: `{"reasoning":"r","section":"s"}`}, "key_insight")
	var missing *MissingError
	if !errors.As(err, &missing) || missing.Field != "key_insight" || got.Text("section") != "s" {
		t.Errorf("got %v, error %v, want the object and a MissingError", got, err)
	}
}

// A server with structured outputs may send the whole reply as thoughts. Thoughts in prose, and those of a truncated reply, are no reply.
func TestReplyInThoughts(t *testing.T) {
	t.Parallel()
	const object = `{"reasoning":"r","final_answer":"7"}`
	for _, tt := range []struct {
		name string
		r    Reply
		want string
	}{
		{"without a text", Reply{Thoughts: object, Finish: "stop"}, "7"},
		{"after prose", Reply{Thoughts: "First I look. " + object, Finish: "stop"}, "7"},
		{"beside a text", Reply{Text: `{"final_answer":"8"}`, Thoughts: object, Finish: "stop"}, "8"},
		{"truncated", Reply{Thoughts: object + " But wait", Finish: "length"}, ""},
		{"in prose", Reply{Thoughts: "It is 7.", Finish: "stop"}, ""},
	} {
		got, err := ParseObject(tt.r, "final_answer")
		if got.Text("final_answer") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: got %v, error %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// Only the repair of the value that becomes the reply counts.
func TestRepairedReply(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"a":1}`: false, `{"a":1,}`: true, `{"a":1} then {b: 2,}`: false, `{"a":0} then {"a":1,}`: true,
	} {
		repaired := false
		if _, err := ParseObject(Reply{Text: text, Repaired: &repaired}, "a"); err != nil || repaired != want {
			t.Errorf("%s: got %t, error %v, want %t", text, repaired, err, want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"the field", `Here: {"items":[{"type":1},{"type":2}]}`, `[{"type":1},{"type":2}]`},
		{"the field under another name", `{"reasoning":"r","changes":[{"type":1}]}`, `[{"type":1}]`},
		{"the field as a JSON text", `{"operations":"[{\"type\":1}]"}`, `[{"type":1}]`},
		{"one item in the field", `{"operations":{"type":1}}`, `[{"type":1}]`},
		{"a draft before it", `{"operations":[{"type":0},{"type":0}]} {"operations":[{"type":1}]}`, `[{"type":1}]`},
		{"null", `{"operations":null}`, `null`},
		{"an empty list", `{"operations":[]}`, `null`},
		{"a list", `[{"type":1},{"type":2}]`, `[{"type":1},{"type":2}]`},
		{"a list after a footnote", `As [1] says: [{"type":1}]`, `[{"type":1}]`},
		{"a list in a fence", "```json\n[{\"type\":1},]\n```", `[{"type":1}]`},
		{"a list without its end", `[{"type":1},{"type":2}`, `[{"type":1},{"type":2}]`},
		{"items without a list", `{"type":1} {"type":2}`, `[{"type":1},{"type":2}]`},
		{"an item after a stray quote", `He wrote ["x and left. {"type":1}`, `[{"type":1}]`},
		{"none of them", `Nothing.`, ``},
		{"another object", `{"status":"ok"}`, ``},
		{"another kind", `{"operations":"none"}`, ``},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			field := "operations"
			if strings.Contains(tt.text, "items") {
				field = "items"
			}
			got, err := ParseList(Reply{Text: tt.text}, field, "type")
			if tt.want == "" {
				if err == nil || errors.As(err, new(*MissingError)) {
					t.Fatalf("got %s, error %v, want another error", got, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("got error %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(valueOf(t, tt.want), valueOf(t, textOf(t, got))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := ParseList(Reply{Text: `{"reasoning":"nothing new"}`}, "operations", "type"); !errors.As(err, new(*MissingError)) {
		t.Errorf("a reply without the field: got %v, want a MissingError", err)
	}
}

// A text with many unclosed brackets must not take quadratic time.
func TestObjectInLinearTime(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{`["`, `["",`, `[1`, `{"`, `{"a":"`, `{a:`, `[{`, `{}`, `[]"`, "```json\n[\"", `</think>`, `<think>{</think>`, `{'`, `["\`} {
		text := strings.Repeat(pattern, maxAnswer/4/len(pattern))
		start := time.Now()
		_, _ = ParseObject(Reply{Text: text, Finish: "length"}, "a")
		if took := time.Since(start); took > 20*time.Second { // measured: 0.05 s, and 1 s with -race; quadratic takes minutes
			t.Errorf("%q repeated: took %v", pattern, took)
		}
	}
}

// TestRepairOfStrayQuotes: the time of jsonrepair for such texts is cubic. Answers with few of them are still repaired.
func TestRepairOfStrayQuotes(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"'a\n", "\"a \"b ", "“a\n", "'a 'b", `\"a `, "'"} {
		text := `{"a":` + strings.Repeat(pattern, (48<<10)/len(pattern)) + "}"
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = ParseObject(Reply{Text: text}, "a")
		}()
		select {
		case <-done:
		case <-time.After(time.Minute): // measured: 1 s
			t.Errorf("%q repeated: not read within a minute", pattern)
		}
	}
	text := `{"a":[` + strings.Repeat("\"it's Ann's and she said \"hello\" to Bob's dog\",\n", 200) + `],}`
	if _, err := ParseObject(Reply{Text: text}, "a"); err != nil {
		t.Errorf("%d bytes with two stray quotes in each string: got %v", len(text), err)
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
		for _, field := range []string{"", "a", "key_insight"} {
			o, err := ParseObject(r, field)
			isMissing := errors.As(err, new(*MissingError))
			if (o == nil) == (err == nil || isMissing) {
				t.Fatalf("got %v and error %v, want one of them", o, err)
			}
			if err == nil && field != "" && !o.has(field) {
				t.Fatalf("got %v without %q", o, field)
			}
		}
		if items, err := ParseList(r, "operations", "type"); err != nil && items != nil {
			t.Fatalf("got %s beside the error %v", items, err)
		}
	})
}

// textOf returns a value as JSON.
func textOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func valueOf(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestPlainForm checks that hasPlainForm compares names as plain does.
func TestPlainForm(t *testing.T) {
	t.Parallel()
	names := []string{"", "_", "key_insight", "KeyInsight", "key insight", "key-insight", "keyinsights", "Schlüssel_Wort", "SCHLÜSSELWORT", "İd", "K", "k"}
	for _, name := range names {
		for _, other := range names {
			if got, want := hasPlainForm(name, plain(other)), plain(name) == plain(other); got != want {
				t.Errorf("hasPlainForm(%q, %q): got %v, want %v", name, plain(other), got, want)
			}
		}
	}
}
