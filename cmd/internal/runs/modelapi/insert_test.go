package modelapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestInsert(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		api    API
		body   string
		texts  map[int]string
		system string
		want   string
	}{
		"nothing":               {Chat, `{"messages":[{"role":"user","content":"a"}]}`, map[int]string{0: ""}, "", `{"messages":[{"role":"user","content":"a"}]}`},
		"string":                {Chat, `{"messages":[ {"role":"user", "content":"a"} ]}`, map[int]string{0: "x\n\"<y>"}, "", `{"messages":[ {"role":"user", "content":"a\n\nx\n\"<y>"} ]}`},
		"empty string":          {Chat, `{"messages":[{"role":"user","content":""}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":"x"}]}`},
		"list":                  {Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"} ]}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":[{"type":"text","text":"a\n\nx"} ]}]}`},
		"empty list":            {Chat, `{"messages":[{"role":"user","content":[ ]}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":[{"type":"text","text":"x"} ]}]}`},
		"two items":             {Chat, `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`, map[int]string{2: "y", 0: "x"}, "", `{"messages":[{"role":"user","content":"a\n\nx"},{"role":"assistant","content":"b"},{"role":"user","content":"c\n\ny"}]}`},
		"system, string":        {Chat, `{"messages":[{"role":"system","content":"r"},{"role":"developer","content":"s"},{"role":"user","content":"a"}]}`, map[int]string{0: "x"}, "z", `{"messages":[{"role":"system","content":"r"},{"role":"developer","content":"s\n\nz"},{"role":"user","content":"a\n\nx"}]}`},
		"system, list":          {Chat, `{"messages":[{"role":"system","content":[{"type":"text","text":"s"}]}]}`, nil, "z", `{"messages":[{"role":"system","content":[{"type":"text","text":"s"},{"type":"text","text":"z"}]}]}`},
		"system, new":           {Chat, `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"late"}]}`, nil, "z", `{"messages":[{"role":"system","content":"z"},{"role":"user","content":"a"},{"role":"system","content":"late"}]}`},
		"system, only one":      {Chat, `{"messages":[]}`, nil, "z", `{"messages":[{"role":"system","content":"z"}]}`},
		"system, unusable":      {Chat, `{"messages":[{"role":"system","content":null}]}`, nil, "z", `{"messages":[{"role":"system","content":"z"},{"role":"system","content":null}]}`},
		"input":                 {Responses, `{"input":"a"}`, map[int]string{0: "x"}, "", `{"input":"a\n\nx"}`},
		"input items":           {Responses, `{"input":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"input_text","text":"b"}]}]}`, map[int]string{0: "x", 1: "y"}, "", `{"input":[{"role":"user","content":"a\n\nx"},{"role":"user","content":[{"type":"input_text","text":"b\n\ny"}]}]}`},
		"instructions":          {Responses, `{"input":[{"role":"system","content":"s"}],"instructions":"r"}`, nil, "z", `{"input":[{"role":"system","content":"s"}],"instructions":"r\n\nz"}`},
		"instructions, new":     {Responses, `{"input":[{"role":"system","content":"s"}]}`, nil, "z", `{"instructions":"z","input":[{"role":"system","content":"s"}]}`},
		"messages":              {Messages, `{"system":"s","messages":[{"role":"user","content":"a"}]}`, map[int]string{0: "x"}, "z", `{"system":"s\n\nz","messages":[{"role":"user","content":"a\n\nx"}]}`},
		"behind a marker":       {Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":[{"type":"text","text":"a\n\nx","cache_control":{"type":"ephemeral"}}]}]}`},
		"behind an image":       {Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"x"}]}]}`},
		"in front of an image":  {Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":[{"type":"text","text":"a\n\nx"},{"type":"image_url","image_url":{"url":"u"}}]}]}`},
		"beside a reminder":     {Messages, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"<system-reminder>r</system-reminder>\n"}]}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":[{"type":"text","text":"a\n\nx"},{"type":"text","text":"<system-reminder>r</system-reminder>\n"}]}]}`},
		"in front of reminders": {Messages, `{"messages":[{"role":"user","content":"a\n\n<system-reminder>r</system-reminder>\n<system-reminder>s</system-reminder>\n"}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":"a\n\nx\n\n<system-reminder>r</system-reminder>\n<system-reminder>s</system-reminder>\n"}]}`},
		"only a reminder":       {Messages, `{"messages":[{"role":"user","content":"<system-reminder>r</system-reminder>"}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":"<system-reminder>r</system-reminder>\n\nx"}]}`},
		"an escaped backslash":  {Chat, `{"messages":[{"role":"user","content":"a\\n<system-reminder>r</system-reminder>"}]}`, map[int]string{0: "x"}, "", `{"messages":[{"role":"user","content":"a\\n\n\nx<system-reminder>r</system-reminder>"}]}`},
		"messages, list":        {Messages, `{"system":[{"type":"text","text":"s"}],"messages":[]}`, nil, "z", `{"system":[{"type":"text","text":"s"},{"type":"text","text":"z"}],"messages":[]}`},
		"messages, new":         {Messages, ` {"messages":[]}`, nil, "z", ` {"system":"z","messages":[]}`},
		"messages, no field":    {Messages, `{ }`, nil, "z", `{"system":"z" }`},
	} {
		got, err := parse(t, tt.api, tt.body).Insert(tt.texts, tt.system)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, error %v\nwant %s", name, got, err, tt.want)
		}
	}
}

func TestInsertRejects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		api    API
		body   string
		item   int
		system string
	}{
		"no item":              {Chat, `{"messages":[]}`, 0, ""},
		"negative index":       {Chat, `{"messages":[]}`, -1, ""},
		"item of an assistant": {Chat, `{"messages":[{"role":"assistant","content":"a"}]}`, 0, ""},
		"item of a tool":       {Messages, `{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`, 0, ""},
		"content null":         {Chat, `{"messages":[{"role":"user","content":null}]}`, 0, ""},
		"content missing":      {Responses, `{"input":[{"role":"user"}]}`, 0, ""},
		"content an object":    {Chat, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`, 0, ""},
		"no messages":          {Chat, `{}`, -2, "z"},
		"instructions null":    {Responses, `{"instructions":null}`, -2, "z"},
	} {
		texts := map[int]string{tt.item: "x"}
		if tt.system != "" {
			texts = nil
		}
		if got, err := parse(t, tt.api, tt.body).Insert(texts, tt.system); err == nil {
			t.Errorf("%s: got %s, want an error", name, got)
		}
	}
}

// inserted is a text with all characters that need care in JSON.
const inserted = "x \"q\" \\ <&> \n\t\x01 é \U0001F600 \u2028"

// checkInsert inserts a text into each place of a request, and compares body, texts and hashes before and after.
func checkInsert(t *testing.T, api API, body []byte) {
	t.Helper()
	r, err := Parse(api, body)
	if err != nil {
		return
	}
	original := bytes.Clone(body)
	texts, current := map[int]string{}, body
	for i := range r.Items {
		if !r.places[i].ok() {
			continue
		}
		text := fmt.Sprint(inserted, i)
		next := insertOne(t, api, current, i, text)
		texts[i], current = text, next
	}
	all, err := r.Insert(texts, "")
	if err != nil || !bytes.Equal(all, current) {
		t.Fatalf("insert all into %q: got %q, error %v, want %q", body, all, err, current)
	}
	if r.systemPlace.ok() {
		checkSystem(t, r, body, texts)
	}
	if !bytes.Equal(body, original) {
		t.Fatalf("body changed: got %q, want %q", body, original)
	}
}

// insertOne inserts a text into the item i and checks the result.
func insertOne(t *testing.T, api API, body []byte, i int, text string) []byte {
	t.Helper()
	before, err := Parse(api, body)
	if err != nil {
		t.Fatal(err)
	}
	out, err := before.Insert(map[int]string{i: text}, "")
	if err != nil {
		t.Fatal(err)
	}
	checkOnlyInserted(t, body, out)
	after, err := Parse(api, out)
	if err != nil {
		t.Fatalf("parse %q after insertion into item %d: %v", out, i, err)
	}
	if len(after.Items) != len(before.Items) || after.System != before.System {
		t.Fatalf("insertion into item %d of %q: got %q", i, body, out)
	}
	for j := range before.Items {
		a, b := before.Items[j], after.Items[j]
		want := a.Text
		if j == i {
			want = joinTexts(slices.DeleteFunc([]string{a.Text, text}, func(s string) bool { return s == "" }))
		}
		if b.Text != want {
			t.Fatalf("text of item %d after insertion into item %d of %q: got %q, want %q", j, i, body, b.Text, want)
		}
		if isSame := bytes.Equal(before.Raw(j+1), after.Raw(j+1)); isSame != (j < i) {
			t.Fatalf("JSON up to item %d after insertion into item %d of %q: equal %t", j, i, body, isSame)
		}
	}
	return out
}

// checkSystem inserts a text into the system prompt, together with the texts.
func checkSystem(t *testing.T, r *Request, body []byte, texts map[int]string) {
	t.Helper()
	out, err := r.Insert(nil, inserted)
	if err != nil {
		t.Fatal(err)
	}
	checkOnlyInserted(t, body, out)
	if out, err = r.Insert(texts, inserted); err != nil {
		t.Fatal(err)
	}
	after, err := Parse(r.API, out)
	if err != nil {
		t.Fatalf("parse %q: %v", out, err)
	}
	if len(after.Items) != len(r.Items) || !strings.Contains(after.System, inserted) {
		t.Fatalf("system prompt of %q: got %q, want the inserted text", out, after.System)
	}
}

// checkOnlyInserted fails unless out is body with bytes inserted at one position.
func checkOnlyInserted(t *testing.T, body, out []byte) {
	t.Helper()
	front, back := 0, 0
	for front < len(body) && front < len(out) && body[front] == out[front] {
		front++
	}
	for back < len(body) && back < len(out) && body[len(body)-1-back] == out[len(out)-1-back] {
		back++
	}
	if front+back < len(body) || len(out) <= len(body) || !json.Valid(out) {
		t.Fatalf("got %q, want only an insertion into %q", out, body)
	}
}

func FuzzParse(f *testing.F) {
	for api, rows := range variants {
		for _, row := range rows {
			for _, body := range row {
				f.Add(string(api), []byte(body))
			}
		}
	}
	f.Add("chat", []byte(`{"messages":[{"role":"user","content":"a"},{"role":"user","content":[]},{"role":"user","content":[1]}],"messages":[{"role":"user","content":"\ud83d"}]}`))
	f.Add("messages", []byte("{\"system\":\"x-anthropic-billing-header:\",\"messages\":[{\"role\":\"user\",\"content\":\"\xc3\"}]}"))
	f.Fuzz(func(t *testing.T, api string, body []byte) {
		checkInsert(t, API(api), body)
		for _, api := range []API{Chat, Responses, Messages} {
			checkInsert(t, api, body)
		}
	})
}

// benchBody returns a request of 60 items and 200 KB.
func benchBody() []byte {
	prose := strings.Repeat("The invoice of the customer was paid twice, see the \"ledger\".\n", 54)
	messages := []any{map[string]any{"role": "system", "content": prose}}
	for i := range 20 {
		id := fmt.Sprint("call_", i)
		call := map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "lookup", "arguments": `{"id":7}`}}
		messages = append(messages,
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": prose}}},
			map[string]any{"role": "assistant", "content": prose, "tool_calls": []any{call}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": prose})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		panic(err)
	}
	return body
}

func BenchmarkParse(b *testing.B) {
	body := benchBody()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := Parse(Chat, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInsert(b *testing.B) {
	r, err := Parse(Chat, benchBody())
	if err != nil {
		b.Fatal(err)
	}
	texts := map[int]string{0: strings.Repeat("Check the ledger. ", 100), r.Turn(): strings.Repeat("Check the invoice. ", 100)}
	for b.Loop() {
		if _, err := r.Insert(texts, "z"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestInsertKeepsUnusualBytes inserts into a body with invalid UTF-8, a lone surrogate, repeated keys, a long number and unknown fields.
func TestInsertKeepsUnusualBytes(t *testing.T) {
	t.Parallel()
	const before, after = "{\"n\":1.00e+0,\"n\":9007199254740993,\"\xff\":\"\\ud800\",\"x\" : {\"a\":[]} ,\"messages\":[{\"role\":\"user\",\"content\":\"\xfe \\ud83d", "\"}]}"
	got, err := parse(t, Chat, before+after).Insert(map[int]string{0: "x"}, "")
	if want := before + `\n\nx` + after; err != nil || string(got) != want {
		t.Errorf("got %q, error %v\nwant %q", got, err, want)
	}
}
