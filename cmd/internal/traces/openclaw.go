package traces

import (
	"cmp"
	"encoding/json"
	"fmt"

	"debrief/events"
)

// clawSession is an OpenClaw session. Nothing in it says how well it went. Turns that were taken back are read where they
// stand: the file is what happened.
type clawSession struct {
	conversation
	run events.Execution // what is not in the conversation
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
		Details    json.RawMessage `json:"details"` // the tool's own
		Usage      struct {
			Input, Output, CacheRead, CacheWrite float64
			Cost                                 struct{ Total float64 }
		} `json:"usage"`
	} `json:"message"`
}

// delivered is the model of what the gateway says in the assistant's name.
const delivered = "delivery-mirror"

func (c *clawSession) add(s *shape, raw []byte) error {
	var l clawEvent
	if err := decode(raw, &l); err != nil {
		return err
	}
	m := &l.Message
	if s.Type == "session" {
		c.run.Session, c.run.Started = l.ID, at(l.Timestamp)
		return nil
	}
	parts, err := blocks("message.content", m.Content)
	if err != nil {
		return err
	}
	switch {
	case m.Role == "user":
		c.user(said(parts))
	case m.Role == "toolResult":
		outcome, report := events.Success, clawReport(m.Details)
		if m.IsError || report.failed() || m.Details == nil && reportsError(said(parts)) {
			outcome = events.Failure
		}
		call := c.returned(m.ToolCallID, m.ToolName, said(parts), outcome)
		call.Duration = seconds(report.DurationMs / 1000)
	case m.Role == "assistant" && m.Model != delivered:
		step := events.Step{Text: said(parts), At: at(l.Timestamp)}
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
		c.turn(false, step, ids)
		u := &c.run.Usage
		u.Calls++
		u.InputTokens += count(m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite)
		u.OutputTokens += count(m.Usage.Output)
		u.Cost += price(m.Usage.Cost.Total)
		c.run.Model = cmp.Or(m.Model, c.run.Model)
	}
	return nil // other roles are the harness's
}

func (c *clawSession) end() (*run, error) {
	r, err := c.execution()
	if err != nil {
		return nil, err
	}
	r.place = printable(c.run.Session)
	r.Session, r.Started, r.Usage, r.Model = bounded(c.run.Session, 256), c.run.Started, c.run.Usage, c.run.Model
	return r, nil
}

// clawDetails is what OpenClaw's own tools say of themselves.
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
