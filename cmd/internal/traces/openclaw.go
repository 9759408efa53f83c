package traces

import (
	"cmp"
	"encoding/json"
	"fmt"

	"debrief/cmd/internal/traces/messages"
	"debrief/cmd/internal/traces/source"
	"debrief/events"
)

// clawSession builds a run from an OpenClaw session. A session does not contain an outcome. Turns that the user reverted are
// kept, because the agent did act on them.
type clawSession struct {
	messages.Conversation
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
		c.run.Session, c.run.Started = l.ID, messages.ParseTime(l.Timestamp)
		return nil
	}
	parts, err := blocks("message.content", m.Content)
	if err != nil {
		return err
	}
	switch {
	case m.Role == "user":
		c.User(textOf(parts))
	case m.Role == "toolResult":
		outcome, report := events.Success, clawReport(m.Details)
		if m.IsError || report.failed() || m.Details == nil && messages.ReportsError(textOf(parts)) {
			outcome = events.Failure
		}
		call := c.AddResultByID(m.ToolCallID, m.ToolName, textOf(parts), outcome)
		call.Duration = messages.ValidDuration(report.DurationMs / 1000)
	case m.Role == "assistant" && m.Model != mirrorModel:
		c.Omit(source.ThinkingBlocks, thinking(parts))
		step := events.Step{Text: textOf(parts), At: messages.ParseTime(l.Timestamp)}
		var ids []string
		for i, p := range parts {
			if p.Type != "toolCall" {
				continue
			}
			if p.Name == "" {
				return fmt.Errorf("field message.content[%d].name: is missing", i)
			}
			ids = append(ids, p.ID)
			step.Calls = append(step.Calls, events.ToolCall{Tool: p.Name, Arguments: string(p.Arguments), Outcome: events.Unknown})
		}
		c.AddTurn(false, step, ids)
		u := &c.run.Usage
		u.Calls++
		u.InputTokens += messages.ValidCount(m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite)
		u.OutputTokens += messages.ValidCount(m.Usage.Output)
		u.Cost += messages.ValidCost(m.Usage.Cost.Total)
		c.run.Model = cmp.Or(m.Model, c.run.Model)
	default:
		c.Omit(source.HarnessMessages, 1)
	}
	return nil
}

func (c *clawSession) End() ([]*messages.Run, error) {
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	r.Name = source.Printable(c.run.Session)
	r.Session, r.Started, r.Usage, r.Model = source.Shorten(c.run.Session, 256), c.run.Started, c.run.Usage, c.run.Model
	return []*messages.Run{r}, nil
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
