package modelapi

import "testing"

// variants are bodies of one API: those of a row are one conversation, and rows differ from each other.
var variants = map[API][][]string{
	Chat: {
		{
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"}]}`,
			`{"model":"other","tools":[],"messages":[{"content":"a","role":"user"}],"messages":[ {"role":"developer","content":[{"type":"text","text":"s"}]},{ "content":[{"text":"\u0061","type":"text","cache_control":{"type":"ephemeral"}}],"role":"user"}]}`,
			`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"a"}]}]}`,
		},
		{`{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"system","content":""},{"role":"user","content":"a"}]}`},
		{`{"messages":[{"role":"system","content":"s2"},{"role":"user","content":"a"}]}`},
		{`{"messages":[{"role":"system","content":"s"},{"role":"system","content":"s"},{"role":"user","content":"a"}]}`},
		{`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"b"}]}`},
		{`{"messages":[{"role":"system","content":"s"},{"role":"user","name":"bob","content":"a"}]}`},
		{`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":"a"}]}`},
		{`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"a"}]}]}`},
		{
			`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x","detail":"low"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"image_url":{"detail":"low", "url":"x"},"type":"image_url","prompt_cache_breakpoint":true}]}]}`,
		},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"y","detail":"low"}}]}]}`},
		{`{"messages":[{"role":"assistant","content":"a"}]}`},
		{
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`,
			`{"messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"{ }","name":"f"},"id":"1","type":"function","index":0}],"content":"","refusal":null,"reasoning_content":"hm"}]}`,
		},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`},
		{`{"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"g","arguments":"{}"}}]}]}`},
		{`{"messages":[{"role":"tool","tool_call_id":"1","content":"r"}]}`, `{"messages":[{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"r"}]}]}`},
		{`{"messages":[{"role":"tool","tool_call_id":"2","content":"r"}]}`},
		{`{"messages":[{"role":"tool","tool_call_id":"1","content":"q"}]}`},
		{`{"messages":[{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"r"},{"type":"image"}]}]}`},
	},
	Responses: {
		{
			`{"instructions":"s","input":"a"}`,
			`{"input":[{"role":"user","content":"a"}],"instructions":"s"}`,
			`{"input":[{"role":"system","content":"s"},{"type":"message","id":"msg_1","status":"completed","role":"user","content":[{"type":"input_text","text":"a"}]}]}`,
		},
		{`{"input":"a"}`},
		{
			`{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}]}`,
			`{"input":[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"function_call","id":"fc_1","status":"completed","call_id":"1","name":"f","arguments":"{}"}]}`,
		},
		{`{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"[]"}]}`},
		{`{"input":[{"type":"shell_call","call_id":"1","action":{"a":1,"b":2}}]}`, `{"input":[{"type":"shell_call","call_id":"1","action":{ "b":2,"a":1}}]}`},
		{`{"input":[{"type":"shell_call","call_id":"1","action":{"a":1,"b":3}}]}`},
		{`{"input":[{"type":"web_search_call","id":"1"}]}`},
		{`{"input":[{"type":"web_search_call","id":"2"}]}`},
		{`{"input":[{"type":"function_call_output","call_id":"1","output":"r"}]}`, `{"input":[{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"r"}]}]}`},
		{`{"input":[{"type":"function_call_output","call_id":"1","output":"q"}]}`},
	},
	Messages: {
		{
			`{"system":"s","messages":[{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]}],"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral"}}`,
			`{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=abcde;"},{"type":"text","text":"s"}],"messages":[{"role":"user","content":"a"}]}`,
			`{"system":"x-anthropic-billing-header: cch=12345;\ns","messages":[{"role":"user","content":"a"}]}`,
		},
		{`{"messages":[{"role":"user","content":"a"}]}`},
		{
			`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1,"b":[1,2]}}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"tool_use","cache_control":{"type":"ephemeral"},"id":"1","name":"f","input":{"b": [1, 2], "a": 1}}]}]}`,
		},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1,"b":[2,1]}}]}]}`},
		{`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":1,"b":[1,2],"cache_control":1}}]}]}`},
		{
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","is_error":false,"tool_use_id":"1","content":[{"type":"text","text":"r","cache_control":{}}],"cache_control":{}}]}]}`,
		},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","is_error":true}]}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"},{"type":"text","text":"x"}]}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"r"},{"type":"text","text":"x"}]}]}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AA=="}}]}]}`},
		{`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"AAA="}}]}]}`},
	},
}

// A repeated request has the same items up to the turn: a later message, the system prompt and other fields do not change them, and a part
// without text, such as an image, does.
func TestRawIsTheConversationUpToAnItem(t *testing.T) {
	t.Parallel()
	const image = `{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`
	first := parse(t, Chat, `{"messages":[{"role":"system","content":"s"},`+image+`]}`)
	later := parse(t, Chat, `{"model":"m","messages":[{"role":"system","content":"other"},`+image+`,{"role":"assistant","content":"b"}],"n":1}`)
	other := parse(t, Chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"y"}}]}]}`)
	if got := string(first.Raw(1)); got != image || string(later.Raw(1)) != image {
		t.Errorf("got %s and %s, want the message of the user", got, later.Raw(1))
	}
	if string(other.Raw(1)) == image {
		t.Error("another image has the same JSON")
	}
	if first.Raw(0) != nil || string(parse(t, Responses, `{"instructions":"s","input":"a"}`).Raw(1)) != `"a"` {
		t.Error("no items, or an input without a list, have other JSON")
	}
}
