package modelapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"debrief/events/outcome"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignored are the fields that the tables do not list.
var ignored = cmp.Options{
	cmpopts.IgnoreUnexported(Request{}), cmpopts.IgnoreFields(Item{}, "Invalid"), cmpopts.EquateEmpty(),
}

func parse(t *testing.T, api API, body string) *Request {
	t.Helper()
	r, err := Parse(api, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseChat(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want Request
	}{
		"fields": {
			`{"model":"m","stream":true,"max_completion_tokens":7,"prompt_cache_key":"k","user":"u","logit_bias":{"1":2},"messages":[
			{"role":"system","content":"s1"},{"role":"developer","content":[{"type":"text","text":"s2"},{"type":"text","text":"s3"}]},
			{"role":"user","content":"q","name":"bob"},{"role":"system","content":"late"}]}`,
			Request{
				Model: "m", Session: "k", System: "s1\n\ns2\n\ns3",
				Items: []Item{{Role: RoleUser, Text: "q"}, {Role: RoleSystem, Text: "late"}},
			},
		},
		"parallel calls, one of a custom tool": {
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,"}},{"type":"text","text":"b"}]},
			{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"2","type":"custom","custom":{"name":"g","input":"free"}}]},
			{"role":"tool","tool_call_id":"1","content":"r1"},{"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"r2"},{"type":"text","text":"r3"}]},
			{"role":"assistant","content":"done"}]}`,
			Request{Items: []Item{
				{Role: RoleUser, Text: "a\n\nb"},
				{Role: RoleAssistant, Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"x": 1}`}, {ID: "2", Name: "g", Arguments: "free"}}},
				{Role: RoleTool, Results: []ToolResult{{CallID: "1", Output: "r1"}, {CallID: "2", Output: "r2\n\nr3"}}},
				{Role: RoleAssistant, Text: "done"},
			}},
		},
		"old function calls and a refusal": {
			`{"max_tokens":1e2,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"","function_call":{"name":"f","arguments":"{}"}},
			{"role":"function","name":"f","content":"r"},{"role":"assistant","refusal":"no"},{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"refusal","refusal":"never"}]}]}`,
			Request{Items: []Item{
				{Role: RoleUser, Text: "q"},
				{Role: RoleAssistant, Calls: []ToolCall{{Name: "f", Arguments: "{}"}}},
				{Role: RoleTool, Results: []ToolResult{{Name: "f", Output: "r"}}},
				{Role: RoleAssistant, Text: "no"},
				{Role: RoleUser, Text: "q"},
				{Role: RoleAssistant, Text: "never"},
			}},
		},
		"neighbours of the user stay apart, those of the assistant do not": {
			`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"critic","content":"d"}]}`,
			Request{Items: []Item{{Role: RoleUser, Text: "a"}, {Role: RoleUser, Text: "b"}, {Role: RoleAssistant, Text: "c\n\nd"}}},
		},
		"unexpected types": {
			`{"model":1,"stream":"yes","max_tokens":"9","user":[],"messages":[1,"x",null,[],{"role":3,"content":{}},{"role":"user","content":7}],"metadata":"m"}`,
			Request{Items: []Item{{Role: RoleAssistant}, {Role: RoleUser}}},
		},
		"no messages":       {`{"messages":{}}`, Request{}},
		"a negative number": {`{"max_tokens":-3,"messages":null}`, Request{}},
		"a huge number":     {`{"max_tokens":1e400}`, Request{}},
		"repeated keys": {
			`{"model":"a","messages":[{"role":"system","content":"x"}],"model":"b","messages":[{"role":"user","role":"user","content":"p","content":"q"}]}`,
			Request{Model: "b", Items: []Item{{Role: RoleUser, Text: "q"}}},
		},
		"invalid UTF-8": {
			"{\"messages\":[{\"role\":\"user\",\"content\":\"a\xff\"}]}",
			Request{Items: []Item{{Role: RoleUser, Text: "a\uFFFD"}}},
		},
	} {
		tt.want.API = Chat
		if diff := cmp.Diff(&tt.want, parse(t, Chat, tt.body), ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseResponses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want Request
	}{
		"a text": {
			`{"model":"m","instructions":"s","input":"q","max_output_tokens":5,"metadata":{"user_id":"u","session_id":"z"},"previous_response_id":"resp_1","conversation":{"id":"conv_1"}}`,
			Request{
				Model: "m", Session: "z", System: "s", PreviousID: "resp_1", Conversation: "conv_1",
				Items: []Item{{Role: RoleUser, Text: "q"}},
			},
		},
		"a turn with calls": {
			`{"conversation":"conv_2","instructions":"s1","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"s2"}]},
			{"role":"user","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":"data:,"}]},
			{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"x"},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]},
			{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"2","name":"g","input":"free"},
			{"type":"function_call_output","call_id":"1","output":"r1"},{"type":"custom_tool_call_output","call_id":"2","output":[{"type":"input_text","text":"r2"},{"type":"input_text","text":"r3"}]},
			{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}]}`,
			Request{System: "s1\n\ns2", Conversation: "conv_2", Items: []Item{
				{Role: RoleUser, Text: "a"},
				{Role: RoleUser, Text: "b"},
				{Role: RoleAssistant, Text: "c", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "g", Arguments: "free"}}},
				{Role: RoleTool, Results: []ToolResult{{CallID: "1", Output: "r1"}, {CallID: "2", Output: "r2\n\nr3"}}},
				{Role: RoleAssistant, Text: "no"},
			}},
		},
		"tools of the API": {
			`{"input":[{"role":"user","content":"q"},{"type":"web_search_call","id":"ws_1","status":"completed"},{"type":"item_reference","id":"rs_1"},
			{"type":"local_shell_call","call_id":"1","action":{"type":"exec", "command":["ls"]}},{"type":"apply_patch_call","call_id":"2","operation":{"type":"delete_file"}},
			{"type":"shell_call_output","call_id":"1","output":[{"stdout":"out","stderr":"err","outcome":{"type":"exit","exit_code":0}}]},
			{"type":"apply_patch_call_output","call_id":"2","status":"completed"},{"type":"mcp_approval_response","approve":true}]}`,
			Request{Items: []Item{
				{Role: RoleUser, Text: "q"},
				{Role: RoleAssistant, Calls: []ToolCall{{ID: "ws_1", Name: "web_search", Result: &ToolResult{CallID: "ws_1", Signs: outcome.Signs{Error: new(false), Status: "completed"}}}, {ID: "1", Name: "local_shell", Arguments: `{"type":"exec","command":["ls"]}`}, {ID: "2", Name: "apply_patch", Arguments: `{"type":"delete_file"}`}}},
				{Role: RoleTool, Results: []ToolResult{{CallID: "1", Output: "out\n\nerr", Signs: outcome.Signs{ExitCode: new(0)}}, {CallID: "2", Signs: outcome.Signs{Status: "completed"}}}},
			}},
		},
		"results only":     {`{"input":[{"type":"function_call_output","call_id":"1","output":"r"}]}`, Request{Items: []Item{{Role: RoleTool, Results: []ToolResult{{CallID: "1", Output: "r"}}}}}},
		"unexpected types": {`{"input":5,"instructions":{},"conversation":[]}`, Request{}},
	} {
		tt.want.API = Responses
		if diff := cmp.Diff(&tt.want, parse(t, Responses, tt.body), ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseMessages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want Request
	}{
		"fields": {
			`{"model":"m","max_tokens":9,"stream":false,"system":"s","metadata":{"user_id":"u"},"messages":[{"role":"user","content":"q"}]}`,
			Request{Model: "m", Session: "u", System: "s", Items: []Item{{Role: RoleUser, Text: "q"}}},
		},
		"a turn with calls": {
			`{"system":[{"type":"text","text":"s1"},{"type":"text","text":"s2","cache_control":{"type":"ephemeral"}}],"messages":[
			{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","data":"AA=="}},{"type":"text","text":"b"}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"c"},{"type":"tool_use","id":"1","name":"f","input":{"x": 1}},{"type":"tool_use","id":"2","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r1"},{"type":"tool_result","tool_use_id":"2","is_error":true,"content":[{"type":"text","text":"r2"},{"type":"image"},{"type":"text","text":"r3"}]},
			{"type":"text","text":"beside"}]},{"role":"user","content":"d"}]}`,
			Request{System: "s1\n\ns2", Items: []Item{
				{Role: RoleUser, Text: "a\n\nb"},
				{Role: RoleAssistant, Text: "c", Calls: []ToolCall{{ID: "1", Name: "f", Arguments: `{"x":1}`}, {ID: "2", Name: "g", Arguments: "{}"}}},
				{Role: RoleTool, Text: "beside", Results: []ToolResult{{CallID: "1", Output: "r1"}, {CallID: "2", Output: "r2\n\nr3", Signs: outcome.Signs{Error: new(true)}}}},
				{Role: RoleUser, Text: "d"},
			}},
		},
		"billing header of Claude Code": {
			`{"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2; cch=00000;"},{"type":"text","text":"s"}],"messages":[]}`,
			Request{System: "s"},
		},
	} {
		tt.want.API = Messages
		if diff := cmp.Diff(&tt.want, parse(t, Messages, tt.body), ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseRejectsUnusableBodies(t *testing.T) {
	t.Parallel()
	for _, api := range []API{Chat, Responses, Messages} {
		for _, body := range []string{"", "[]", "null", `"x"`, "{", `{"messages":[}`, `{}{}`, "\xff"} {
			if r, err := Parse(api, []byte(body)); err == nil {
				t.Errorf("%s: %q: got %+v, want an error", api, body, r)
			}
		}
		if _, err := Parse(api, []byte(`{"messages":`+strings.Repeat("[", 1<<20))); !errors.Is(err, errTooDeep) {
			t.Errorf("%s: got %v, want %v", api, err, errTooDeep)
		}
	}
}

func TestTurnAndRunning(t *testing.T) {
	t.Parallel()
	for roles, want := range map[string]int{
		"":     -1,
		"u":    0,
		"uu":   1,
		"ua":   0,
		"uau":  2,
		"uat":  0,
		"uatu": 3,
		"us":   0,
		"t":    -1,
		"a":    -1,
		"ur":   0,
	} {
		r := &Request{}
		for _, c := range roles {
			item := Item{Role: map[rune]Role{'u': RoleUser, 'r': RoleUser, 'a': RoleAssistant, 't': RoleTool, 's': RoleSystem}[c]}
			if c == 'r' {
				item.Text = reminderStart + "be brief" + reminderEnd
			}
			r.Items = append(r.Items, item)
		}
		if turn := r.Turn(); turn != want {
			t.Errorf("%q: got turn %d, want %d", roles, turn, want)
		}
	}
}

func TestParseManyItems(t *testing.T) {
	t.Parallel()
	const n = 10_000
	var chat, responses, messages strings.Builder
	for i := range n {
		fmt.Fprintf(&chat, `,{"role":"tool","tool_call_id":"%d","content":"r"}`, i)
		fmt.Fprintf(&responses, `,{"type":"function_call_output","call_id":"%d","output":"r"}`, i)
		fmt.Fprintf(&messages, `,{"type":"tool_result","tool_use_id":"%d","content":"r"}`, i)
	}
	for api, body := range map[API]string{
		Chat:      `{"messages":[` + chat.String()[1:] + `]}`,
		Responses: `{"input":[` + responses.String()[1:] + `]}`,
		Messages:  `{"messages":[{"role":"user","content":[` + messages.String()[1:] + `]}]}`,
	} {
		if r := parse(t, api, body); len(r.Items) != 1 || len(r.Items[0].Results) != n {
			t.Errorf("%s: got %d items", api, len(r.Items))
		}
	}
	if r := parse(t, Chat, `{"messages":[`+strings.Repeat(`{"role":"user","content":"q"},`, n-1)+`{"role":"user","content":"q"}]}`); len(r.Items) != n || r.Turn() != n-1 {
		t.Errorf("got %d items, turn %d", len(r.Items), r.Turn())
	}
}
