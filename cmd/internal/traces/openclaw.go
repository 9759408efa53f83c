package traces

import (
	"cmp"
	"encoding/json"
	"fmt"

	"debrief/events"
)

// clawSession builds a run from an OpenClaw session. A session does not contain an outcome. Turns that the user reverted are
// kept, because the agent did act on them.
type clawSession struct {
	conversation
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

func (c *clawSession) add(s *shape, raw []byte) error {
	var l clawEvent
	if err := decode(raw, &l); err != nil {
		return err
	}
	m := &l.Message
	if s.Type == "session" {
		c.run.Session, c.run.Started = l.ID, parseTime(l.Timestamp)
		return nil
	}
	parts, err := blocks("message.content", m.Content)
	if err != nil {
		return err
	}
	switch {
	case m.Role == "user":
		c.user(textOf(parts))
	case m.Role == "toolResult":
		outcome, report := events.Success, clawReport(m.Details)
		if m.IsError || report.failed() || m.Details == nil && reportsError(textOf(parts)) {
			outcome = events.Failure
		}
		call := c.addResultByID(m.ToolCallID, m.ToolName, textOf(parts), outcome)
		call.Duration = validDuration(report.DurationMs / 1000)
	case m.Role == "assistant" && m.Model != mirrorModel:
		step := events.Step{Text: textOf(parts), At: parseTime(l.Timestamp)}
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
		c.addTurn(false, step, ids)
		u := &c.run.Usage
		u.Calls++
		u.InputTokens += validCount(m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite)
		u.OutputTokens += validCount(m.Usage.Output)
		u.Cost += validCost(m.Usage.Cost.Total)
		c.run.Model = cmp.Or(m.Model, c.run.Model)
	}
	return nil // messages of other roles are from the harness
}

func (c *clawSession) end() (*run, error) {
	r, err := c.execution()
	if err != nil {
		return nil, err
	}
	r.name = printable(c.run.Session)
	r.Session, r.Started, r.Usage, r.Model = shorten(c.run.Session, 256), c.run.Started, c.run.Usage, c.run.Model
	return r, nil
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
