package steps

import (
	"encoding/json"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// TestItems reads items of the Responses API that are neither messages nor calls of the agent, and a call that failed without an error.
func TestItems(t *testing.T) {
	t.Parallel()
	var c Conversation
	c.AddItems(modelapi.Find(json.RawMessage(`[{"role":"user","content":"q"},
		{"id":"mcpl_1","type":"mcp_list_tools","server_label":"s","tools":[{"name":"roll","input_schema":{}}]},
		{"id":"mcpr_1","type":"mcp_approval_request","name":"roll","arguments":"{}","server_label":"s"},
		{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true},
		{"id":"mcp_1","type":"mcp_call","status":"failed","name":"roll","arguments":"{}","output":null,"error":null,"server_label":"s"},
		{"id":"m_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"No.","annotations":[]}]}]`), "user"))
	if c.Answer != "No." {
		t.Errorf("got answer %q", c.Answer)
	}
	if len(c.Steps) != 2 || len(c.Steps[0].Calls) != 1 || c.Steps[0].Calls[0].Outcome != events.Failure || c.Steps[0].Calls[0].Tool != "roll" {
		t.Errorf("got steps %+v", c.Steps)
	}
}
