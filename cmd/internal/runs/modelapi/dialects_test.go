package modelapi

import (
	"encoding/json"
	"strings"
	"testing"

	"debrief/events/outcome"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestEndsOfStreams reads streams whose end differs from the one that the provider of the API writes.
func TestEndsOfStreams(t *testing.T) {
	t.Parallel()
	const part = `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`
	const call = `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}]}`
	const block = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`
	const item = `{"type":"response.output_item.done","item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a"}]}}`
	for name, tt := range map[string]struct {
		api  API
		body string
		want Finish
	}{
		"chat, end marker only":                    {Chat, events(part, "[DONE]"), FinishStop},
		"chat, end marker after calls":             {Chat, events(call, "[DONE]"), FinishTools},
		"chat, reason is empty":                    {Chat, events(strings.Replace(part, "null", `""`, 1), "[DONE]"), FinishStop},
		"chat, spaces around the end marker":       {Chat, events(part) + "data:  [DONE] \r\n\r\n", FinishStop},
		"chat, reason and no end marker":           {Chat, events(strings.Replace(part, "null", `"length"`, 1)), FinishLength},
		"chat, whole message in a stream":          {Chat, events(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, "[DONE]"), FinishStop},
		"chat, cut":                                {Chat, events(part), FinishNone},
		"messages, no message_stop":                {Messages, events(block, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), FinishStop},
		"messages, no reason":                      {Messages, events(block, `{"type":"message_stop"}`), FinishStop},
		"messages, end marker of OpenAI":           {Messages, events(block, "[DONE]"), FinishStop},
		"messages, cut":                            {Messages, events(block), FinishNone},
		"responses, done":                          {Responses, events(`{"type":"response.done","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}}`), FinishStop},
		"responses, end marker after items":        {Responses, events(item, "[DONE]"), FinishStop},
		"responses, deltas and an empty response":  {Responses, events(`{"type":"response.output_text.delta","delta":"a"}`, `{"type":"response.completed","response":{}}`), FinishStop},
		"responses, names in event lines only":     {Responses, "event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\nevent: response.completed\ndata: {\"response\":{}}\n\n", FinishStop},
		"responses, cut":                           {Responses, events(item), FinishNone},
		"chat, JSON with the type of a stream":     {Chat, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, FinishStop},
		"chat, stream with line breaks in front":   {Chat, "\r\n\r\n" + events(part, "[DONE]"), FinishStop},
		"messages, stream that begins with a ping": {Messages, "event: ping\ndata: {}\n\n" + events(block, `{"type":"message_stop"}`), FinishStop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := collect(tt.api, "", []byte(tt.body))
			if got.Finish != tt.want || (got.Text == "a") == strings.Contains(tt.body, "tool_calls") {
				t.Errorf("got finish %q, text %q, error %q; want finish %q, text a", got.Finish, got.Text, got.Error, tt.want)
			}
		})
	}
}

// TestPartsOfCalls joins the parts of calls in streams of chat completions.
func TestPartsOfCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		parts []string // each is the list of one chunk
		want  []ToolCall
	}{
		"neither index nor id": {
			[]string{`{"function":{"name":"f","arguments":"{\"a\":1}"}}`, `{"function":{"name":"g","arguments":"{}"}}`},
			[]ToolCall{{Name: "f", Arguments: `{"a":1}`}, {Name: "g", Arguments: "{}"}},
		},
		"neither, the same tool": {
			[]string{`{"function":{"name":"f","arguments":"{}"}}`, `{"function":{"name":"f","arguments":"{}"}}`},
			[]ToolCall{{Name: "f", Arguments: "{}"}, {Name: "f", Arguments: "{}"}},
		},
		"neither, in one chunk": {
			[]string{`{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"g","arguments":"{}"}}`},
			[]ToolCall{{Name: "f", Arguments: "{}"}, {Name: "g", Arguments: "{}"}},
		},
		"neither, arguments in parts": {
			[]string{`{"function":{"name":"f","arguments":""}}`, `{"function":{"arguments":"{\"a\""}}`, `{"function":{"arguments":":1}"}}`, `{"function":{"name":"g"}}`, `{"function":{"arguments":"{}"}}`},
			[]ToolCall{{Name: "f", Arguments: `{"a":1}`}, {Name: "g", Arguments: "{}"}},
		},
		"ids without index": {
			[]string{`{"id":"1","function":{"name":"f","arguments":"{"}}`, `{"id":"1","function":{"arguments":"}"}}`, `{"id":"2","function":{"name":"f","arguments":"{}"}}`},
			[]ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "f", Arguments: "{}"}},
		},
		"one index for all": {
			[]string{`{"index":0,"function":{"name":"f","arguments":"{}"}}`, `{"index":0,"function":{"name":"g","arguments":"{}"}}`},
			[]ToolCall{{Name: "f", Arguments: "{}"}, {Name: "g", Arguments: "{}"}},
		},
		"one id for all": {
			[]string{`{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}`, `{"index":1,"id":"1","function":{"name":"g","arguments":"{}"}}`},
			[]ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "1", Name: "g", Arguments: "{}"}},
		},
		"name in each part": {
			[]string{`{"index":0,"id":"1","function":{"name":"f","arguments":"{\"a\""}}`, `{"index":0,"id":"1","function":{"name":"f","arguments":":1}"}}`},
			[]ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1}`}},
		},
		"interleaved": {
			[]string{`{"index":1,"id":"2","function":{"name":"g","arguments":"["}}`, `{"index":0,"id":"1","function":{"name":"f","arguments":"{"}}`, `{"index":1,"function":{"arguments":"]"}}`, `{"index":0,"function":{"arguments":"}"}}`},
			[]ToolCall{{ID: "2", Name: "g", Arguments: "[]"}, {ID: "1", Name: "f", Arguments: "{}"}},
		},
		"arguments are an object": {
			[]string{`{"index":0,"id":"1","function":{"name":"f","arguments":{"a": 1.0}}}`},
			[]ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1.0}`}},
		},
		"ids are numbers":     {[]string{`{"id":7,"function":{"name":"f","arguments":null}}`}, []ToolCall{{ID: "7", Name: "f"}}},
		"custom tool":         {[]string{`{"index":0,"id":"1","custom":{"name":"f","input":"a"}}`, `{"index":0,"custom":{"input":"b"}}`}, []ToolCall{{ID: "1", Name: "f", Arguments: "ab"}}},
		"not a list of calls": {[]string{`null,3,"x",[]`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var data []string
			for _, part := range tt.parts {
				data = append(data, `{"choices":[{"delta":{"tool_calls":[`+part+`]}}]}`)
			}
			got := collect(Chat, "", []byte(events(append(data, "[DONE]")...)))
			if diff := cmp.Diff(tt.want, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestToolsOfTheProvider reads replies with calls that the provider ran itself.
func TestToolsOfTheProvider(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		api    API
		output string
		finish Finish
		want   []ToolCall
	}{
		"mcp_call": {
			Responses, `[{"type":"mcp_call","id":"1","name":"f","arguments":"{\"a\":1}","output":null,"status":"failed","error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"unknown a"}]}},
			{"type":"mcp_call","id":"2","name":"f","arguments":"{}","output":"7","error":null,"status":"completed"},{"type":"mcp_call","name":"g","arguments":"{}","error":"offline"}]`, FinishStop,
			[]ToolCall{
				{ID: "1", Name: "f", Arguments: `{"a":1}`, Result: &ToolResult{CallID: "1", Output: "unknown a", Signs: outcome.Signs{Error: new(true), Status: "failed"}}},
				{ID: "2", Name: "f", Arguments: "{}", Result: &ToolResult{CallID: "2", Output: "7", Signs: outcome.Signs{Status: "completed"}}},
				{Name: "g", Arguments: "{}", Result: &ToolResult{Output: "offline", Signs: outcome.Signs{Error: new(true)}}},
			},
		},
		"searches and code": {
			Responses, `[{"type":"web_search_call","id":"1","status":"completed","action":{"type":"search","query":"q"}},{"type":"file_search_call","id":"2","status":"completed","queries":["q"],"results":[{"file_id":"x","text":"found"}]},
			{"type":"code_interpreter_call","id":"3","status":"completed","code":"print(7)","outputs":[{"type":"logs","logs":"7\n"}]},{"type":"code_interpreter_call","id":"4","status":"failed","code":"x"}]`, FinishStop,
			[]ToolCall{
				{ID: "1", Name: "web_search", Arguments: `{"type":"search","query":"q"}`, Result: &ToolResult{CallID: "1", Signs: outcome.Signs{Error: new(false), Status: "completed"}}},
				{ID: "2", Name: "file_search", Arguments: `["q"]`, Result: &ToolResult{CallID: "2", Output: "found", Signs: outcome.Signs{Status: "completed"}}},
				{ID: "3", Name: "code_interpreter", Arguments: "print(7)", Result: &ToolResult{CallID: "3", Output: "7\n", Signs: outcome.Signs{Status: "completed"}}},
				{ID: "4", Name: "code_interpreter", Arguments: "x", Result: &ToolResult{CallID: "4", Signs: outcome.Signs{Status: "failed"}}},
			},
		},
		"shell of the provider beside a call of the client": {
			Responses, `[{"type":"shell_call","id":"sh","call_id":"1","action":{"commands":["ls"]}},{"type":"shell_call_output","call_id":"1","output":[{"stdout":"","stderr":"no","outcome":{"type":"exit","exit_code":2}}]},
			{"type":"function_call","id":"fc","call_id":"2","name":"f","arguments":{"a":1}},{"type":"computer_call","id":"cu","call_id":"3","action":{"type":"click"}},{"type":"custom_tool_call","call_id":"4","name":"p","input":"x"}]`, FinishTools,
			[]ToolCall{
				{ID: "1", Name: "shell", Arguments: `{"commands":["ls"]}`, Result: &ToolResult{CallID: "1", Output: "no", Signs: outcome.Signs{ExitCode: new(2)}}},
				{ID: "2", Name: "f", Arguments: `{"a":1}`},
				{ID: "3", Name: "computer", Arguments: `{"type":"click"}`},
				{ID: "4", Name: "p", Arguments: "x"},
			},
		},
		"Anthropic": {
			Messages, `[{"type":"server_tool_use","id":"1","name":"web_search","input":{"query":"q"}},{"type":"web_search_tool_result","tool_use_id":"1","content":[{"type":"web_search_result","title":"t","url":"u","encrypted_content":"x"}]},
			{"type":"mcp_tool_use","id":"2","name":"f","server_name":"s","input":{}},{"type":"mcp_tool_result","tool_use_id":"2","is_error":true,"content":[{"type":"text","text":"no"}]},
			{"type":"server_tool_use","id":"3","name":"code","input":{}},{"type":"code_execution_tool_result","tool_use_id":"3","content":{"type":"code_execution_result","stdout":"7","stderr":"","return_code":0}},
			{"type":"server_tool_use","id":"4","name":"web_fetch","input":{}},{"type":"web_fetch_tool_result","tool_use_id":"4","content":{"type":"web_fetch_tool_result_error","error_code":"url_not_accessible"}}]`, FinishStop,
			[]ToolCall{
				{ID: "1", Name: "web_search", Arguments: `{"query":"q"}`, Result: &ToolResult{CallID: "1", Output: "t\n\nu"}},
				{ID: "2", Name: "f", Arguments: "{}", Result: &ToolResult{CallID: "2", Output: "no", Signs: outcome.Signs{Error: new(true)}}},
				{ID: "3", Name: "code", Arguments: "{}", Result: &ToolResult{CallID: "3", Output: "7", Signs: outcome.Signs{ExitCode: new(0)}}},
				{ID: "4", Name: "web_fetch", Arguments: "{}", Result: &ToolResult{CallID: "4", Output: `{"type":"web_fetch_tool_result_error","error_code":"url_not_accessible"}`, Signs: outcome.Signs{Error: new(true)}}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := `{"status":"completed","output":` + tt.output + `}`
			if tt.api == Messages {
				body = `{"stop_reason":"end_turn","content":` + tt.output + `}`
			}
			got := collect(tt.api, "", []byte(body))
			if diff := cmp.Diff(tt.want, got.Calls); diff != "" || got.Finish != tt.finish || len(got.Results) > 0 {
				t.Errorf("got finish %q, want %q; %d results are left; calls (-want +got):\n%s", got.Finish, tt.finish, len(got.Results), diff)
			}
			if tt.api == Responses { // the stream with the same items
				var data []string
				var items []json.RawMessage
				if err := json.Unmarshal([]byte(tt.output), &items); err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					data = append(data, strings.ReplaceAll(`{"type":"response.output_item.done","item":`+string(item)+"}", "\n", ""))
				}
				if diff := cmp.Diff(tt.want, collect(Responses, "", []byte(events(append(data, "[DONE]")...))).Calls); diff != "" {
					t.Errorf("calls of the stream (-want +got):\n%s", diff)
				}
			}
		})
	}
	pause := collect(Messages, "", []byte(`{"stop_reason":"end_turn","content":[{"type":"web_search_tool_result","tool_use_id":"0","content":"late"}]}`))
	if want := []ToolResult{{CallID: "0", Output: "late"}}; !cmp.Equal(want, pause.Results) {
		t.Errorf("result of a call in an earlier reply: got %+v, want %+v", pause.Results, want)
	}
}

// TestOrdersOfResults parses requests whose results stand in other places than behind all calls.
func TestOrdersOfResults(t *testing.T) {
	t.Parallel()
	const chatCall = `{"role":"assistant","content":null,"tool_calls":[{"id":"%","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	for name, tt := range map[string]struct {
		api  API
		body string
	}{
		"responses, each output behind its call": {Responses, `{"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"ra"},
			{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"b","output":"rb"}]}`},
		"responses, outputs in reverse": {Responses, `{"input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","call_id":"b","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"b","output":"rb"},{"type":"function_call_output","call_id":"a","output":"ra"}]}`},
		"chat, each result behind its call": {Chat, `{"messages":[` + strings.ReplaceAll(chatCall, "%", "a") + `,{"role":"tool","tool_call_id":"a","content":"ra"},` +
			strings.ReplaceAll(chatCall, "%", "b") + `,{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"rb"}]}]}`},
		"messages, results behind a text": {Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"text","text":"note"},{"type":"tool_result","tool_use_id":"b","content":"rb"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"ra"}]}]}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, results := map[string]string{}, map[string]string{}
			for _, item := range parse(t, tt.api, tt.body).Items {
				for _, c := range item.Calls {
					calls[c.ID] = c.Name
				}
				for _, r := range item.Results {
					if calls[r.CallID] == "" {
						t.Errorf("the result %+v stands in front of its call", r)
					}
					results[r.CallID] = r.Output
				}
			}
			if !cmp.Equal(calls, map[string]string{"a": "f", "b": "f"}) || !cmp.Equal(results, map[string]string{"a": "ra", "b": "rb"}) {
				t.Errorf("got calls %v, results %v", calls, results)
			}
		})
	}
}

// TestFind reads recorded values of several dialects.
func TestFind(t *testing.T) {
	t.Parallel()
	call := Item{Role: RoleAssistant, Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"a":1}`}}}
	result := Item{Role: RoleTool, Results: []ToolResult{{CallID: "1", Output: "r"}}}
	user := Item{Role: RoleUser, Text: "q"}
	bare := Item{Role: RoleAssistant, Results: result.Results} // parts without a message
	for name, tt := range map[string]struct {
		raw  string
		want []Item
	}{
		"chat":              {`[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]`, []Item{user, call, result}},
		"chat, ids differ":  {`[{"role":"assistant","tool_calls":[{"id":1,"function":{"name":"f","arguments":{"a": 1}}}]},{"role":"tool","tool_call_id":1,"content":{"output":"r"}}]`, []Item{call, result}},
		"old function call": {`[{"role":"assistant","content":"","function_call":{"name":"f","arguments":"{\"a\":1}"}},{"role":"function","name":"f","content":"r"}]`, []Item{{Role: RoleAssistant, Calls: []ToolCall{{Name: "f", Arguments: `{"a":1}`}}}, {Role: RoleTool, Results: []ToolResult{{Name: "f", Output: "r"}}}}},
		"developer":         {`[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"input_text","text":"q"}]}]`, []Item{{Role: RoleSystem, Text: "s"}, user}},
		"refusal":           {`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, []Item{{Role: RoleAssistant, Text: "no"}}},
		"JSON in a text":    {`"[{\"role\":\"user\",\"content\":\"q\"}]"`, []Item{user}},
		"Gemini":            {`{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"a":1}}}]}]}`, []Item{user, call}},
		"LangChain":         {`{"messages":[{"type":"human","data":{"content":"q"}},{"lc":1,"type":"constructor","id":["x","AIMessage"],"kwargs":{"content":"","tool_calls":[{"name":"f","args":{"a":1},"id":"1"}]}}]}`, []Item{user, call}},
		"Vercel AI SDK":     {`[{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":"f","input":{"a":1}}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","output":{"type":"text","value":"r"}}]}]`, []Item{call, result}},
		"OpenTelemetry":     {`[{"role":"user","parts":[{"type":"text","content":"q"}]},{"role":"assistant","parts":[{"type":"tool_call","id":"1","name":"f","arguments":{"a":1}}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"1","result":"r"}]}]`, []Item{user, call, result}},
		"results":           {`[{"type":"tool_result","tool_use_id":"1","content":"r"}]`, []Item{bare}},
		"results as parts":  {`[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"}]}]`, []Item{bare}},
		"response":          {`[{"type":"tool_call_response","id":"1","result":"r"}]`, []Item{bare}},
		"no messages":       {`{"a":[1,"x"]}`, nil},
		"invalid":           {`[{"role":"user"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Find(json.RawMessage(tt.raw), ""), cmpopts.IgnoreFields(Item{}, "Invalid"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutReminders(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a": "a", "a\n\n<system-reminder>r</system-reminder>\n": "a", "<system-reminder>r</system-reminder>b<system-reminder>s</system-reminder>": "b", "a <system-reminder>open": "a", "": "",
	} {
		if got := WithoutReminders(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
