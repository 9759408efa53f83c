package traces

import (
	"cmp"
	"encoding/json"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
)

// clawSession builds a run from an OpenClaw session. A session does not contain an outcome. Turns that the user reverted are
// kept, because the agent did act on them.
type clawSession struct {
	steps.Conversation
	run events.Execution // the fields that are not part of the conversation
}

// clawEvent is a line of a session.
type clawEvent struct {
	ID        string          `json:"id"`
	Timestamp json.RawMessage `json:"timestamp"`
	Message   struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		Model      string          `json:"model"`
		ToolCallID string          `json:"toolCallId"`
		ToolName   string          `json:"toolName"`
		IsError    bool            `json:"isError"`
		Details    json.RawMessage `json:"details"` // depends on the tool
		Usage      struct {
			Input, Output, CacheRead, CacheWrite float64
			Cost                                 struct{ Total float64 }
		} `json:"usage"`
	} `json:"message"`
}

// mirrorModel is the model name of messages that the gateway adds as the assistant.
const mirrorModel = "delivery-mirror"

func (c *clawSession) Add(o *source.Object) error {
	var l clawEvent
	if err := source.Decode(o.Raw, &l); err != nil {
		return err
	}
	m := &l.Message
	if o.Text("type") == "session" {
		c.run.Session, c.run.Started = l.ID, steps.ParseTime(l.Timestamp)
		return nil
	}
	if _, err := modelapi.ContentText("message.content", m.Content); err != nil {
		return err
	}
	said := modelapi.ParseContent(modelapi.RoleOf(m.Role), m.Content)
	switch {
	case m.Role == "user":
		c.User(said.Text)
	case m.Role == "toolResult":
		report := clawReport(m.Details)
		r := modelapi.ToolResult{CallID: m.ToolCallID, Name: m.ToolName, Output: said.Text}
		if failed := m.IsError || report.failed(); failed || m.Details != nil {
			r.Failed = &failed
		}
		open := c.AddResult(&r)
		c.Steps[open.Step].Calls[open.Call].Duration = steps.ValidDuration(report.DurationMs / 1000)
	case m.Role == "assistant" && m.Model != mirrorModel:
		c.Omit(source.ThinkingBlocks, said.Omitted.Thoughts)
		c.AddTurn(false, events.Step{Text: said.Text, At: steps.ParseTime(l.Timestamp)}, said.Calls)
		if l.ID != "" {
			c.Identify(l.ID + " " + string(l.Timestamp))
		}
		u := &c.run.Usage
		u.Calls++
		u.InputTokens += steps.ValidCount(m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite)
		u.OutputTokens += steps.ValidCount(m.Usage.Output)
		u.Cost += steps.ValidCost(m.Usage.Cost.Total)
		c.run.Model = cmp.Or(m.Model, c.run.Model)
	default:
		c.Omit(source.HarnessMessages, 1)
	}
	return nil
}

func (c *clawSession) End() ([]*steps.Run, error) {
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	r.Name = source.Printable(c.run.Session)
	r.Session, r.Started, r.Usage, r.Model = source.Shorten(c.run.Session, 256), c.run.Started, c.run.Usage, c.run.Model
	return []*steps.Run{r}, nil
}

// clawDetails are the details of the results of OpenClaw's built-in tools.
type clawDetails struct {
	Status     string  `json:"status"`
	ExitCode   float64 `json:"exitCode"`
	DurationMs float64 `json:"durationMs"`
}

func clawReport(raw json.RawMessage) (d clawDetails) {
	_ = json.Unmarshal(raw, &d) // other tools have other details
	return d
}

func (d clawDetails) failed() bool {
	switch d.Status {
	case "error", "failed", "timeout", "killed":
		return true
	}
	return d.ExitCode != 0
}
