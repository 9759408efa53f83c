package conversation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/chat"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	usage := chat.Usage{Calls: 1, InputTokens: 100, OutputTokens: 20}
	steps := []events.Step{
		{Speaker: "assistant", Text: "I look it up."},
		{Speaker: "assistant", Usage: usage, Calls: []events.ToolCall{
			{Tool: "find", Arguments: "{}", Output: "nothing", Outcome: events.Failure, Duration: time.Second},
			{Tool: "list", Output: "a b c"},
		}},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "read"}}},
		{Speaker: "assistant", Text: "a text before the user"},
		{Speaker: "user", Text: "Go on."},
		{Speaker: "assistant", Calls: []events.ToolCall{{Tool: "read"}}},
	}
	tokens := chat.Tokens("{}") + chat.Tokens("nothing")
	want := []Call{
		{Iteration: 2, Tool: "find", Outcome: events.Failure, Rationale: "I look it up.", Took: time.Second, Tokens: tokens, Usage: usage},
		{Iteration: 2, Tool: "list", Outcome: events.Success, Rationale: "I look it up.", Tokens: chat.Tokens("a b c")},
		{Iteration: 3, Tool: "read", Outcome: events.Success},
		{Iteration: 5, Tool: "read", Outcome: events.Success},
	}
	if diff := cmp.Diff(want, Calls(steps)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
