package runs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"debrief/events"
)

// TestCumulativeMessages checks that a transcript that writes a message again with all blocks so far has each text and call once.
func TestCumulativeMessages(t *testing.T) {
	t.Parallel()
	const (
		text  = `{"type":"text","text":"Look."}`
		first = `{"type":"tool_use","id":"t1","name":"find","input":{"a":1}}`
		next  = `{"type":"tool_use","id":"t2","name":"find","input":{"b":2}}`
	)
	for name, ids := range map[string][3]string{"other ids": {"m1", "m2", "m3"}, "one id": {"m1", "m1", "m1"}} {
		var file strings.Builder
		file.WriteString(`{"type":"user","sessionId":"s","message":{"role":"user","content":"q"}}` + "\n")
		for i, blocks := range []string{text, text + "," + first, text + "," + first + "," + next} {
			fmt.Fprintf(&file, `{"type":"assistant","sessionId":"s","message":{"id":%q,"role":"assistant","content":[%s]}}`+"\n", ids[i], blocks)
		}
		for _, id := range []string{"t1", "t2"} {
			fmt.Fprintf(&file, `{"type":"user","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"r"}]}}`+"\n", id)
		}
		want := []events.Step{{Speaker: "assistant", Text: "Look.", Calls: []events.ToolCall{
			{Tool: "find", Arguments: `{"a":1}`, Output: "r", Outcome: events.Success},
			{Tool: "find", Arguments: `{"b":2}`, Output: "r", Outcome: events.Success},
		}}}
		if e := one(t, file.String()); !reflect.DeepEqual(e.Steps, want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, e.Steps, want)
		}
	}
}

// TestHelpersOfClaudeCode checks that the calls of Claude Code itself are no runs, and that a file with nothing else is no error. A task
// of a person to summarize is a run.
func TestHelpersOfClaudeCode(t *testing.T) {
	t.Parallel()
	file := func(about, question, answer string) string {
		return fmt.Sprintf(`{"type":"user","sessionId":"s",%[1]s"message":{"role":"user","content":%[2]q}}
{"type":"assistant","sessionId":"s",%[1]s"message":{"id":"m","role":"assistant","content":[{"type":"text","text":%[3]q}]}}
`, about, question, answer)
	}
	const order = "Your task is to create a detailed summary of the conversation so far."
	for _, tt := range []struct {
		name, about, question string
		runs                  int
	}{
		{"compacts", `"isSidechain":true,"agentId":"acompact-1a2b",`, order, 0},
		{"compacts, another prompt", `"isSidechain":true,"agentId":"acompact-1a2b",`, "Fasse zusammen.", 0},
		{"suggests a prompt", `"isSidechain":true,"agentId":"aprompt_suggestion-1a2b",`, "What next?", 0},
		{"an ordinary id", `"isSidechain":true,"agentId":"a1b2c3",`, order, 0},
		{"warms up", `"isSidechain":true,"agentId":"a1b2c3",`, "Warmup", 0},
		{"a sub-agent's task", `"isSidechain":true,"agentId":"a1b2c3",`, "Warmup tests fail. Fix them.", 1},
		{"a sub-agent's file", `"isSidechain":true,"agentId":"a1b2c3",`, "Create a summary of the file chat.txt.", 1},
		{"a person's task", "", order, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, report, err := read(t, "f", file(tt.about, tt.question, "The user looked for an atlas."))
			if err != nil || len(got) != tt.runs || report.Skipped != 0 {
				t.Errorf("got %d runs, %+v, error %v, want %d runs", len(got), report, err, tt.runs)
			}
		})
	}
}
