package steps

import (
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// FuzzParse checks the steps of messages in any dialect: each call has a tool and an outcome, and a bounded output.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"t","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]`,
		`{"messages":[{"type":"human","data":{"content":"q"}},{"type":"ai","data":{"content":[{"type":"text","text":"a"}]}}]}`,
		`[{"role":"model","parts":[{"function_call":{"name":"t","args":{}}}]},{"role":"user","parts":[{"function_response":{"name":"t","response":{"output":"r"}}}]}]`,
		`[{"type":"function_call","call_id":"1","name":"t","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"r"}]`,
		`[{"role":"user","content":"q"},{"role":"assistant","content":"Action: t\nAction Input: x"},{"role":"user","content":"Observation: r"}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Conversation
		c.AddItems(modelapi.Find(data, "user"))
		c.ParseTextActions()
		_, err := c.End()
		if err != nil {
			return
		}
		for _, s := range c.Steps {
			for _, call := range s.Calls {
				if call.Tool == "" || call.Outcome == events.Label("") || len(call.Output) > MaxOutput+64 {
					t.Errorf("got call %+v", call)
				}
			}
		}
	})
}
