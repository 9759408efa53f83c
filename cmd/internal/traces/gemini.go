package traces

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
	"debrief/events/chat"
)

// geminiMessage is a message of a session file of Gemini CLI. A tool call and its result are in one message.
type geminiMessage struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Content   json.RawMessage `json:"content"`
	Timestamp json.RawMessage `json:"timestamp"`
	Model     string          `json:"model"`
	Thoughts  []any           `json:"thoughts"`
	ToolCalls []struct {
		Name   string            `json:"name"`
		Args   json.RawMessage   `json:"args"`
		Result []json.RawMessage `json:"result"`
		Status string            `json:"status"`
	} `json:"toolCalls"`
	Tokens struct {
		Input    float64 `json:"input"`
		Output   float64 `json:"output"`
		Thoughts float64 `json:"thoughts"`
		Tool     float64 `json:"tool"`
	} `json:"tokens"`
}

// geminiSession parses a session. It does not contain an outcome.
func geminiSession(o *source.Object) ([]*steps.Run, error) {
	c := steps.Conversation{}
	var about events.Execution
	for i, raw := range source.AsList(o.Get("messages")) {
		var m geminiMessage
		err := source.Decode(raw, &m)
		if err == nil {
			err = addGemini(&c, &m, &about)
		}
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	r.Name = source.Printable(o.Text("sessionId"))
	r.Session, r.Started = source.Shorten(o.Text("sessionId"), 256), steps.ParseTime(o.Get("startTime"))
	r.Duration = steps.ValidDuration(steps.ParseTime(o.Get("lastUpdated")).Sub(r.Started).Seconds())
	r.Usage, r.Model = about.Usage, about.Model
	return []*steps.Run{r}, nil
}

func addGemini(c *steps.Conversation, m *geminiMessage, about *events.Execution) error {
	content := modelapi.OutputText(m.Content)
	switch m.Type {
	case "user":
		c.User(strings.TrimSpace(content))
		return nil
	case "gemini":
	default: // info, warning, error
		c.Omit(source.HarnessMessages, 1)
		return nil
	}
	c.Omit(source.ThinkingBlocks, len(m.Thoughts))
	about.Model = cmp.Or(m.Model, about.Model)
	about.Usage = about.Usage.Add(chat.Usage{
		Calls: 1, InputTokens: steps.ValidCount(m.Tokens.Input + m.Tokens.Tool), OutputTokens: steps.ValidCount(m.Tokens.Output + m.Tokens.Thoughts),
	})
	step := events.Step{Speaker: "assistant", Text: content, At: steps.ParseTime(m.Timestamp)}
	for i, t := range m.ToolCalls {
		if t.Name == "" {
			return fmt.Errorf("toolCalls[%d].name: is missing", i)
		}
		call := events.ToolCall{Tool: t.Name, Arguments: modelapi.ArgumentText(t.Args), Outcome: events.Unknown}
		var output []string
		for _, part := range t.Result {
			for _, result := range modelapi.ParseContent(modelapi.RoleTool, part).Results {
				output = append(output, result.Output)
			}
		}
		switch t.Status {
		case "success":
			c.SetOutput(&call, strings.Join(output, "\n"), events.Success)
		case "error":
			c.SetOutput(&call, strings.Join(output, "\n"), events.Failure)
		default: // cancelled by the user, or not finished
			c.SetOutput(&call, strings.Join(output, "\n"), events.Unknown)
		}
		step.Calls = append(step.Calls, call)
	}
	if step.Text == "" && len(step.Calls) == 0 {
		return nil
	}
	if len(step.Calls) == 0 {
		c.Answer = step.Text
	}
	c.Steps = append(c.Steps, step)
	c.Identify(m.ID)
	return nil
}
