package modelapi

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// response is a response of a provider and what a Collector must read from it.
type response struct {
	api  API
	body string
	want Reply
}

// events returns an event stream: each element is the data of an event, or a line that ends with a line break.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		if strings.HasSuffix(d, "\n") {
			b.WriteString(d)
			continue
		}
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

var responses = map[string]response{
	"chat": {
		Chat,
		`{"id":"chatcmpl-1","object":"chat.completion","model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"finish_reason":"stop"}],
		"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":8}},"error":null}`,
		Reply{ID: "chatcmpl-1", Model: "m-1", Text: "hi", Usage: Usage{10, 8, 2}, Finish: FinishStop},
	},
	"chat, parallel calls": {
		Chat,
		`{"id":"c","choices":[{"index":1,"message":{"content":"other"},"finish_reason":"length"},{"index":0,"message":{"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
		{"id":"2","type":"custom","custom":{"name":"g","input":"x"}}]},"finish_reason":"tool_calls"}]}`,
		Reply{ID: "c", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"a": 1}`}, {ID: "2", Name: "g", Arguments: "x"}}, Finish: FinishTools},
	},
	"chat, call demanded by name": {
		Chat, `{"choices":[{"message":{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
		Reply{Calls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}, Finish: FinishTools},
	},
	"chat, no index": {
		Chat, `{"choices":[{"message":{"content":"first"},"finish_reason":"stop"},{"message":{"content":"other"},"finish_reason":"length"}]}`,
		Reply{Text: "first", Finish: FinishStop},
	},
	"chat, old call":       {Chat, `{"choices":[{"message":{"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"function_call"}]}`, Reply{Calls: []ToolCall{{Name: "f", Arguments: "{}"}}, Finish: FinishTools}},
	"chat, refusal":        {Chat, `{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}`, Reply{Text: "no", Finish: FinishRefusal}},
	"chat, filter":         {Chat, `{"choices":[{"message":{"content":"par"},"finish_reason":"content_filter"}]}`, Reply{Text: "par", Finish: FinishRefusal}},
	"chat, length":         {Chat, `{"choices":[{"message":{"content":"par"},"finish_reason":"length"}]}`, Reply{Text: "par", Finish: FinishLength}},
	"chat, no reason":      {Chat, `{"choices":[{"message":{"content":"par"},"finish_reason":null}]}`, Reply{Text: "par", Finish: FinishStop}},
	"chat, error":          {Chat, `{"error":{"message":"bad key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, Reply{Finish: FinishFailed, Error: "bad key"}},
	"chat, error code":     {Chat, `{"error":{"code":"overloaded"}}`, Reply{Finish: FinishFailed, Error: "overloaded"}},
	"chat, empty error":    {Chat, `{"error":{}}`, Reply{Finish: FinishFailed, Error: "the response contains an error without a message"}},
	"chat, error text":     {Chat, `{"error":"model not found"}`, Reply{Finish: FinishFailed, Error: "model not found"}},
	"chat, error of proxy": {Chat, `{"detail":"Not Found"}`, Reply{Finish: FinishFailed, Error: "Not Found"}},
	"chat, other JSON":     {Chat, `[1]`, Reply{Error: "response is not of the API of the request"}},
	"chat, HTML":           {Chat, `<html>`, Reply{Error: "read response: invalid JSON at byte 0"}},
	"chat, empty":          {Chat, ``, Reply{Error: "read response: invalid JSON at byte 0"}},
	"chat stream": {
		Chat,
		events(`{"id":"chatcmpl-1","object":"chat.completion.chunk","model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
			`{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"h\u00e9"}}]}`, `{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"length"}]}`,
			`{"choices":[{"index":0,"delta":{"content":"llo"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}`, `[DONE]`),
		Reply{ID: "chatcmpl-1", Model: "m-1", Text: "héllo", Usage: Usage{10, 8, 2}, Finish: FinishStop},
	},
	"chat stream, no index": {
		Chat,
		events(`{"choices":[{"delta":{"content":"fir"}},{"delta":{"content":"oth"}}]}`,
			`{"choices":[{"delta":{"content":"st"},"finish_reason":"stop"},{"delta":{"content":"er"},"finish_reason":"length"}]}`, `[DONE]`),
		Reply{Text: "first", Finish: FinishStop},
	},
	"chat stream, calls": {
		Chat,
		events(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"2","type":"custom","custom":{"name":"g","input":"x"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}},{"index":1,"custom":{"input":"y"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`),
		Reply{Calls: []ToolCall{{ID: "2", Name: "g", Arguments: "xy"}, {ID: "1", Name: "f", Arguments: `{"a":1}`}}, Finish: FinishTools},
	},
	"chat stream, calls without or with equal index": {
		Chat,
		events(`{"choices":[{"delta":{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"2","function":{"name":"g","arguments":"{}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"3","function":{"name":"h","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`),
		Reply{Calls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "g", Arguments: "{}"}, {ID: "3", Name: "h", Arguments: "{}"}}, Finish: FinishTools},
	},
	"chat stream, old call": {
		Chat,
		events(`{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{"}}}]}`, `{"choices":[{"delta":{"function_call":{"arguments":"}"}}}]}`, `{"choices":[{"delta":{},"finish_reason":"function_call"}]}`),
		Reply{Calls: []ToolCall{{Name: "f", Arguments: "{}"}}, Finish: FinishTools},
	},
	"chat stream, refusal":                  {Chat, events(`{"choices":[{"delta":{"refusal":"n"}}]}`, `{"choices":[{"delta":{"refusal":"o"},"finish_reason":"stop"}]}`), Reply{Text: "no", Finish: FinishRefusal}},
	"chat stream, cut":                      {Chat, events(`{"choices":[{"delta":{"content":"par"}}]}`) + `data: {"choices":[{"delta":{},"finish_reason":"st`, Reply{Text: "par", Error: "response has no end"}},
	"chat stream, no blank line at the end": {Chat, events(`{"choices":[{"delta":{"content":"a"}}]}`) + "data:[DONE]", Reply{Text: "a", Finish: FinishStop}},
	"chat stream, error":                    {Chat, events(`{"choices":[{"delta":{"content":"par"}}]}`, `{"error":{"message":"overloaded"}}`), Reply{Text: "par", Finish: FinishFailed, Error: "overloaded"}},
	"chat stream, line ends, comments, several data lines": {
		Chat,
		"\uFEFF: comment\r\nid: 7\r\nretry: 1\r\ndata:{\"choices\":[\r\ndata\r\ndata: {\"delta\":{\"content\":\"a\"}}]}\r\n\r\n" +
			"data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\r\r:\r\n\r\n\n" + "event: x\n\n" + "data: no JSON\n\n" + "data: {\"choices\":[{\"delta\":{\"content\":\"c\"},\"finish_reason\":\"stop\"}]}\n\n",
		Reply{Text: "abc", Finish: FinishStop},
	},
	"responses": {
		Responses,
		`{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"m-1","output":[{"type":"reasoning","summary":[]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]},{"type":"output_text","text":"b"}]}],
		"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":8},"output_tokens":2,"total_tokens":12}}`,
		Reply{ID: "resp_1", Model: "m-1", Text: "a\n\nb", Usage: Usage{10, 8, 2}, Finish: FinishStop},
	},
	"responses, calls": {
		Responses,
		`{"id":"r","status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"2","name":"g","input":"x"}]}`,
		Reply{ID: "r", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "g", Arguments: "x"}}, Finish: FinishTools},
	},
	"responses, refusal":    {Responses, `{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]}`, Reply{Text: "no", Finish: FinishRefusal}},
	"responses, length":     {Responses, `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`, Reply{Finish: FinishLength}},
	"responses, filter":     {Responses, `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`, Reply{Finish: FinishRefusal}},
	"responses, failed":     {Responses, `{"id":"r","status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}`, Reply{ID: "r", Finish: FinishFailed, Error: "boom"}},
	"responses, cancelled":  {Responses, `{"status":"cancelled","output":[]}`, Reply{Finish: FinishFailed, Error: "the response was cancelled"}},
	"responses, background": {Responses, `{"id":"r","status":"queued","output":[]}`, Reply{ID: "r", Error: "the response is queued"}},
	"responses, no status":  {Responses, `{"output":[{"role":"assistant","content":"a"}]}`, Reply{Text: "a", Finish: FinishStop}},
	"responses, error":      {Responses, `{"error":{"message":"bad key"}}`, Reply{Finish: FinishFailed, Error: "bad key"}},
	"responses, other JSON": {Responses, `{}`, Reply{Error: "response is not of the API of the request"}},
	"responses stream": {
		Responses,
		events("event: response.created\n", `{"type":"response.created","response":{"id":"resp_1","model":"m-1","status":"in_progress","output":[]}}`,
			`{"type":"response.output_text.delta","delta":"a"}`, `{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`,
			"event: response.completed\n", `{"type":"response.completed","response":{"id":"resp_1","model":"m-1","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":8},"output_tokens":2}}}`),
		Reply{ID: "resp_1", Model: "m-1", Text: "a", Usage: Usage{10, 8, 2}, Finish: FinishStop},
	},
	"responses stream, output only in items": {
		Responses,
		events(`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}}`, "event: response.completed\n", `{"response":{"id":"r","status":"completed","output":[]}}`),
		Reply{ID: "r", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}, Finish: FinishTools},
	},
	"responses stream, cut": {
		Responses,
		events(`{"type":"response.created","response":{"id":"r","model":"m"}}`, `{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`,
			`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}}`),
		Reply{ID: "r", Model: "m", Text: "a", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}, Error: "response has no end"},
	},
	"responses stream, incomplete": {Responses, events(`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`), Reply{Finish: FinishLength}},
	"responses stream, failed":     {Responses, events(`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"x","message":"boom"}}}`), Reply{ID: "r", Finish: FinishFailed, Error: "boom"}},
	"responses stream, error":      {Responses, events(`{"type":"error","code":"x","message":"boom","param":null}`), Reply{Finish: FinishFailed, Error: "boom"}},
	"responses stream, no message": {Responses, events("event: error\n", `{}`), Reply{Finish: FinishFailed, Error: "the response failed"}},
	"messages": {
		Messages,
		`{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"text","text":"b"}],"stop_reason":"end_turn",
		"usage":{"input_tokens":1,"cache_creation_input_tokens":1,"cache_read_input_tokens":8,"output_tokens":2}}`,
		Reply{ID: "msg_1", Model: "m-1", Text: "a\n\nb", Usage: Usage{10, 8, 2}, Finish: FinishStop},
	},
	"messages, calls":      {Messages, `{"content":[{"type":"tool_use","id":"1","name":"f","input":{"a": [1, 2]}},{"type":"server_tool_use","id":"s","name":"web"}],"stop_reason":"tool_use"}`, Reply{Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"a":[1,2]}`}, {ID: "s", Name: "web"}}, Finish: FinishTools}},
	"messages, refusal":    {Messages, `{"content":[],"stop_reason":"refusal"}`, Reply{Finish: FinishRefusal}},
	"messages, length":     {Messages, `{"content":[],"stop_reason":"max_tokens"}`, Reply{Finish: FinishLength}},
	"messages, window":     {Messages, `{"content":[],"stop_reason":"model_context_window_exceeded"}`, Reply{Finish: FinishLength}},
	"messages, stop":       {Messages, `{"content":[],"stop_reason":"stop_sequence"}`, Reply{Finish: FinishStop}},
	"messages, error":      {Messages, `{"type":"error","error":{"type":"overloaded_error","message":"busy"},"request_id":"req_1"}`, Reply{Finish: FinishFailed, Error: "busy"}},
	"messages, other JSON": {Messages, `{"message":"no route"}`, Reply{Finish: FinishFailed, Error: "no route"}},
	"messages stream": {
		Messages,
		events("event: message_start\n", `{"type":"message_start","message":{"id":"msg_1","model":"m-1","content":[],"stop_reason":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":1,"cache_read_input_tokens":8,"output_tokens":1}}}`,
			"event: ping\n", `{"type": "ping"}`, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"1","name":"f","input":{}}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\": "}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"2","name":"g","input":{}}}`, `{"type":"content_block_delta","index":9,"delta":{"text":"x"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`, "event: message_stop\n", `{}`),
		Reply{ID: "msg_1", Model: "m-1", Text: "ab", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1}`}, {ID: "2", Name: "g", Arguments: "{}"}}, Usage: Usage{10, 8, 2}, Finish: FinishTools},
	},
	"messages stream, cut call": {
		Messages,
		events(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"f","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"partial_json":"{\"a\": "}}`, `{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}`),
		Reply{Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"a": `}}, Finish: FinishLength},
	},
	"messages stream, error":      {Messages, events("event: error\n", `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), Reply{Finish: FinishFailed, Error: "busy"}},
	"messages stream, no message": {Messages, events("event: error\n", `{}`), Reply{Finish: FinishFailed, Error: "the stream contains an error without a message"}},
}

// collect reads a body that arrives in parts.
func collect(api API, encoding string, parts ...[]byte) *Reply {
	c := NewCollector(api, encoding)
	for _, part := range parts {
		if n, err := c.Write(part); n != len(part) || err != nil {
			panic(fmt.Sprintf("write: got %d of %d bytes, error %v", n, len(part), err))
		}
	}
	return c.Reply()
}

func packed(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	if _, err := zw.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCollector(t *testing.T) {
	t.Parallel()
	for name, tt := range responses {
		compare := func(how string, got *Reply) {
			if !reflect.DeepEqual(got, &tt.want) {
				t.Errorf("%s, %s (-want +got):\n%s", name, how, cmp.Diff(&tt.want, got))
			}
		}
		body := []byte(tt.body)
		compare("whole", collect(tt.api, "identity", body))
		compare("gzip", collect(tt.api, "gzip", packed(t, tt.body)))
		var single [][]byte
		for i := range body {
			compare(fmt.Sprintf("split at %d", i), collect(tt.api, "", body[:i], body[i:]))
			single = append(single, body[i:i+1])
		}
		compare("single bytes", collect(tt.api, "", single...))
	}
}

func TestCollectorFindsTheEndOfAStream(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		api    API
		before string
		marker string
		want   bool
	}{
		{Chat, events(`{"choices":[{"index":0,"delta":{"content":"[DONE]"},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":1}}`) + "data: [DONE]\n", "\n", true},
		{Messages, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", true},
		{Messages, "", "event: message_stop\ndata: {}\n\n", true},
		{Responses, events(`{"type":"response.output_text.done","text":"a"}`), events(`{"type":"response.completed","response":{"id":"r"}}`), true},
		{Responses, "", events(`{"type":"response.incomplete","response":{"id":"r"}}`), true},
		{Chat, `{"choices":[]}`, events("[DONE]"), false},
	} {
		c := NewCollector(test.api, "")
		if _, _ = c.Write([]byte(test.before)); c.Ended() {
			t.Errorf("%s: ended after %q", test.api, test.before)
		}
		if _, _ = c.Write([]byte(test.marker)); c.Ended() != test.want {
			t.Errorf("%s: got %t after %q", test.api, c.Ended(), test.marker)
		}
	}
}

func TestCollectorOfUnreadableBodies(t *testing.T) {
	t.Parallel()
	stream := responses["chat stream"]
	zipped := packed(t, stream.body)
	for name, tt := range map[string]struct {
		encoding string
		body     []byte
		want     Finish
	}{
		"unknown encoding":    {"br", []byte(stream.body), FinishNone},
		"no gzip":             {"gzip", []byte(stream.body), FinishNone},
		"gzip cut at half":    {"GZIP", zipped[:len(zipped)/2], FinishNone},
		"gzip without a sum":  {"gzip", zipped[:len(zipped)-8], FinishStop},
		"gzip of large zeros": {"gzip", packed(t, strings.Repeat("\x00", maxBody+1)), FinishNone},
	} {
		got := collect(Chat, tt.encoding, tt.body)
		if got.Finish != tt.want || (got.Error == "") != got.Complete() {
			t.Errorf("%s: got %+v, want finish %q", name, got, tt.want)
		}
	}
}

func TestCollectorIsBounded(t *testing.T) {
	t.Parallel()
	const want = "response is over 16777216 bytes"
	chunk := []byte(`data: {"choices":[{"delta":{"content":"` + strings.Repeat("a", 1<<16) + "\"}}]}\n\n")
	for _, body := range []string{string(chunk), "{" + string(chunk)} {
		c := NewCollector(Chat, "")
		for range 2 * maxBody / len(chunk) {
			_, _ = c.Write([]byte(body))
		}
		if got := c.Reply(); got.Error != want || got.Finish != FinishNone {
			t.Errorf("%.10q: got %.80q, finish %q", body, got.Error, got.Finish)
		}
		if c.stream != nil || c.body != nil || c.parser != nil {
			t.Errorf("%.10q: the collector keeps its memory", body)
		}
	}
	if got := collect(Chat, "gzip", packed(t, strings.Repeat(" ", maxBody+1))); got.Error != want {
		t.Errorf("gzip: got %.80q, want %q", got.Error, want)
	}
}

// A reply and the same reply in the next request of the client have equal texts and calls.
func TestReplyEqualsItsItem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		api                   API
		reply, request, field string
	}{
		{Chat, `{"choices":[{"message":%s,"finish_reason":"stop"}]}`, `{"messages":[%s]}`, `{"role":"assistant","content":"a","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}`},
		{Responses, `{"status":"completed","output":%s}`, `{"input":%s}`, `[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}]`},
		{Messages, `{"content":%s,"stop_reason":"tool_use"}`, `{"messages":[{"role":"assistant","content":%s}]}`, `[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"tool_use","id":"1","name":"f","input":{"a": 1}}]`},
	} {
		reply := collect(tt.api, "", fmt.Appendf(nil, tt.reply, tt.field))
		item := parse(t, tt.api, fmt.Sprintf(tt.request, tt.field)).Items[0]
		if diff := cmp.Diff(item.Calls, reply.Calls); diff != "" || item.Text != reply.Text || item.Text == "" {
			t.Errorf("%s: item %q, reply %q, calls:\n%s", tt.api, item.Text, reply.Text, diff)
		}
	}
}

func FuzzCollector(f *testing.F) {
	for _, r := range responses {
		f.Add(string(r.api), []byte(r.body), uint16(len(r.body)/2), uint16(7))
	}
	f.Add(string(Chat), []byte("\x00"+strings.Repeat("0", 50)+"i"), uint16(51), uint16(7)) // a NUL is a first byte too
	f.Fuzz(func(t *testing.T, api string, body []byte, split, step uint16) {
		want := collect(API(api), "", body)
		at := min(int(split), len(body))
		parts := [][]byte{body[:at]}
		for rest := body[at:]; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		if diff := cmp.Diff(want, collect(API(api), "", parts...)); diff != "" {
			t.Errorf("split body (-whole +split):\n%s", diff)
		}
		if want.Finish == FinishNone && want.Error == "" {
			t.Errorf("got %+v, want an end or an error", want)
		}
		collect(API(api), "gzip", body)
	})
}

func BenchmarkCollectorWrite(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n")
	c := NewCollector(Chat, "")
	for b.Loop() {
		if c.size+len(chunk) > maxBody {
			c = NewCollector(Chat, "")
		}
		_, _ = c.Write(chunk)
	}
}
