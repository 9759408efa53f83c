package modelapi

import (
	"slices"
	"testing"
)

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

func TestPrefixTellsConversationsApart(t *testing.T) {
	t.Parallel()
	seen := map[Hash]string{}
	for api, rows := range variants {
		for _, row := range rows {
			var first Hash
			for i, body := range row {
				r := parse(t, api, body)
				got := r.Items[len(r.Items)-1].Prefix
				if i == 0 {
					if other := seen[got]; other != "" {
						t.Errorf("%s has the hash of %s", body, other)
					}
					first, seen[got] = got, body
				}
				if got != first {
					t.Errorf("%s: %s differs from %s", api, body, row[0])
				}
			}
		}
	}
}

// Root must not depend on the conversation, and Prefix must depend on all items up to its own only.
func TestPrefixIsAChain(t *testing.T) {
	t.Parallel()
	short := parse(t, Chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`)
	long := parse(t, Chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`)
	if short.Root != long.Root || short.Root == (Hash{}) {
		t.Errorf("roots: got %x and %x", short.Root, long.Root)
	}
	if !slices.EqualFunc(short.Items, long.Items[:2], func(a, b Item) bool { return a.Prefix == b.Prefix }) {
		t.Error("a further message changes earlier hashes")
	}
	if empty := parse(t, Chat, `{"messages":[{"role":"system","content":"s"}]}`); empty.Root != short.Root {
		t.Errorf("root without items: got %x, want %x", empty.Root, short.Root)
	}
	if other := parse(t, Messages, `{"system":"s"}`); other.Root == short.Root {
		t.Error("root does not depend on the API")
	}
}
