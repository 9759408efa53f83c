package simulated

import (
	"strings"
	"testing"

	"debrief/events/chat"
	"debrief/events/chat/openai"
)

// TestToolCallsAreAccepted checks messages that contain only tool calls, and messages with the results, as agents send them.
func TestToolCallsAreAccepted(t *testing.T) {
	t.Parallel()
	_, url := startServer(t, Options{})
	c, err := openai.New(openai.Config{BaseURL: url, Model: Name})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	spent := 0
	for _, arguments := range []string{`{"path":"a.go"}`, `{"path":"` + strings.Repeat("a", 400) + `"}`} {
		reply, err := c.Complete(t.Context(), chat.Prompt{Messages: []chat.Message{
			{Speaker: chat.User, Text: "What is in a.go?"},
			{Speaker: chat.Assistant, Calls: []chat.Call{{ID: "c1", Tool: "read", Arguments: arguments}}},
			{Speaker: chat.Tool, CallID: "c1"},
			{Speaker: chat.User, Text: "And now?"},
		}})
		if err != nil || !strings.Contains(reply.Text, "simulated") {
			t.Fatalf("got %q, %v, want a reply that mentions simulated", reply.Text, err)
		}
		if reply.Usage.InputTokens < spent+15 {
			t.Errorf("got %d tokens after %d, want the arguments counted", reply.Usage.InputTokens, spent)
		}
		spent = reply.Usage.InputTokens
	}
}
