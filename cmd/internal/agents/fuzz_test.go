package agents

import (
	"encoding/json"
	"testing"
)

// FuzzParse reads any event of each agent. Its output is one object of JSON, whatever the names in the event.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"hook_event_name":"UserPromptSubmit","session_id":"s","transcript_path":"/t","cwd":"/r","prompt":"/debrief bad it fails"}`,
		`{"hook_event_name":"postToolUse","conversation_id":"c","workspace_roots":["/r"],"cursor_version":"2","tool_name":"Shell","tool_input":{"command":"make"},"tool_output":"{\"exitCode\":1}"}`,
		`{"hook_event_name":"postToolUseFailure","conversation_id":"c","tool_name":"x","error_message":"no"}`,
		`{"hook_event_name":"AfterAgent","session_id":"s","prompt_response":"done"}`,
		`{"hook_event_name":"SessionStart","session_id":"s","source":"compact","transcript_path":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, agent := range Names {
			e, err := parse(agent, data)
			if err != nil {
				continue
			}
			if e.kind != kindOther && e.session == "" {
				t.Errorf("%s: an event without a session has the kind %d", agent, e.kind)
			}
			if (e.kind == kindToolUse) != (e.call != nil) {
				t.Errorf("%s: got the kind %d and the call %+v", agent, e.kind, e.call)
			}
			ratingOf(e.prompt)
			for _, out := range [][]byte{e.adviceOutput("Run <make>."), e.refusalOutput("Rated.")} {
				var object map[string]any
				if err := json.Unmarshal(out, &object); err != nil || len(object) == 0 {
					t.Errorf("%s: got %s, %v", agent, out, err)
				}
			}
		}
	})
}
