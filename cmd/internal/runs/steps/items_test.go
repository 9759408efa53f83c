package steps

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

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

// TestAnswerAfterProviderCall checks that text after a call that the provider ran is part of the answer, also if a recorder has the call and
// the text in turns of their own. Text beside a call of the client is no answer.
func TestAnswerAfterProviderCall(t *testing.T) {
	t.Parallel()
	provider := []modelapi.ToolCall{{ID: "1", Name: "web_search", Result: &modelapi.ToolResult{CallID: "1"}}}
	client := []modelapi.ToolCall{{ID: "2", Name: "read"}}
	for _, tt := range []struct {
		name  string
		turns []Turn
		want  string
	}{
		{"a provider's call", []Turn{{Text: "I search."}, {Continues: true, Calls: provider}, {Continues: true, Text: "It is 7."}}, "I search.\nIt is 7."},
		{"a client's call", []Turn{{Text: "I read."}, {Continues: true, Calls: client}, {Continues: true, Text: "It is 7."}}, "I read."},
		{"both", []Turn{{Calls: client}, {Continues: true, Calls: provider, Text: "I search and read."}}, ""},
		{"a turn after a client's call", []Turn{{Calls: client}, {Text: "It is 7."}}, "It is 7."},
	} {
		var c Conversation
		for _, turn := range tt.turns {
			c.AddTurn(turn)
		}
		if c.Answer != tt.want {
			t.Errorf("%s: got answer %q, want %q", tt.name, c.Answer, tt.want)
		}
	}
}

// TestIDsOfTextActions checks that each step keeps the ids of its messages when the results of actions in texts become a part of their calls.
func TestIDsOfTextActions(t *testing.T) {
	t.Parallel()
	var c Conversation
	for i, item := range []modelapi.Item{
		{Role: modelapi.RoleUser, Text: "Which berth?"},
		{Role: modelapi.RoleAssistant, Text: "Action: find\nAction Input: Tern"},
		{Role: modelapi.RoleUser, Text: "Observation: 4"},
		{Role: modelapi.RoleAssistant, Text: "Berth 4."},
	} {
		c.AddItem(&item, time.Time{})
		c.Identify(strconv.Itoa(i))
	}
	c.ParseTextActions()
	runs, err := c.End()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := runs[0].IDs, []string{"1\n2\n", "3\n"}; !slices.Equal(got, want) || len(runs[0].Steps) != 2 {
		t.Errorf("got ids %q of %d steps, want %q", got, len(runs[0].Steps), want)
	}
}
