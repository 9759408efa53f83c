package traces

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// claudeSession builds a run from a session of Claude Code up to a result event, or from a transcript. A result event
// "success" only means that the agent finished; the answer was not verified, so the outcome is unknown. With a result event
// "error" the outcome is failure. Streams contain no event for the prompt, so their runs have no question.
type claudeSession struct {
	conversation
	run     events.Execution // the fields that are not part of the conversation
	message string           // id of the last assistant message; each of its blocks is a separate event
}

// claudeEvent is a line of a stream or a transcript.
type claudeEvent struct {
	SessionID        string          `json:"session_id"`
	SessionIDOfFile  string          `json:"sessionId"`
	Timestamp        json.RawMessage `json:"timestamp"`
	Model            string          `json:"model"` // of the init event
	ParentToolUseID  string          `json:"parent_tool_use_id"`
	IsSidechain      bool            `json:"isSidechain"`
	IsMeta           bool            `json:"isMeta"`
	IsCompactSummary bool            `json:"isCompactSummary"`
	Message          struct {
		ID      string          `json:"id"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`

	Subtype    string          `json:"subtype"`
	IsError    bool            `json:"is_error"`
	DurationMS float64         `json:"duration_ms"`
	NumTurns   float64         `json:"num_turns"`
	Result     json.RawMessage `json:"result"`
	Cost       float64         `json:"total_cost_usd"`
	Usage      struct {
		Input      float64 `json:"input_tokens"`
		CacheRead  float64 `json:"cache_read_input_tokens"`
		CacheWrite float64 `json:"cache_creation_input_tokens"`
		Output     float64 `json:"output_tokens"`
	} `json:"usage"`
}

func (c *claudeSession) add(s *shape, raw []byte) error {
	switch s.Type {
	case "system", "user", "assistant", "result":
	default:
		return nil
	}
	var l claudeEvent
	if err := decode(raw, &l); err != nil {
		return err
	}
	if l.IsSidechain || l.ParentToolUseID != "" || l.IsMeta || l.IsCompactSummary {
		return nil
	}
	c.run.Session = cmp.Or(l.SessionID, l.SessionIDOfFile)
	if c.run.Started.IsZero() {
		c.run.Started = parseTime(l.Timestamp)
	}
	switch s.Type {
	case "system":
		c.run.Model = cmp.Or(l.Model, c.run.Model)
		return nil
	case "result":
		return c.addResultEvent(&l)
	}
	parts, err := blocks("message.content", l.Message.Content)
	if err != nil {
		return err
	}
	if s.Type == "user" {
		c.addUserTurn(parts)
		return nil
	}
	return c.addAssistantTurn(&l, parts)
}

// syntheticModel is the model name of messages that Claude Code itself adds as the assistant.
const syntheticModel = "<synthetic>"

func (c *claudeSession) addAssistantTurn(l *claudeEvent, parts []block) error {
	m := &l.Message
	if m.Model == syntheticModel {
		return nil
	}
	step := events.Step{Text: textOf(parts), At: parseTime(l.Timestamp)}
	var ids []string
	for i, p := range parts {
		if p.Type != "tool_use" {
			continue
		}
		if p.Name == "" {
			return fmt.Errorf("field message.content[%d].name: is missing", i)
		}
		ids = append(ids, p.ID)
		step.Calls = append(step.Calls, events.ToolCall{Tool: p.Name, Arguments: string(p.Input), Outcome: events.Unknown})
	}
	continued := m.ID != "" && m.ID == c.message
	if !continued && step.Text == "" && len(ids) == 0 { // a thinking block
		return nil
	}
	c.addTurn(continued, step, ids)
	c.message = m.ID
	c.run.Model = cmp.Or(c.run.Model, m.Model)
	return nil
}

// declinedPrefix begins the tool error with which Claude Code reports that a person refused the call.
const declinedPrefix = "The user doesn't want to "

func (c *claudeSession) addUserTurn(parts []block) {
	for _, p := range parts {
		if p.Type != "tool_result" {
			continue
		}
		output, err := jsonText("content", p.Content)
		if err != nil {
			output = string(p.Content)
		}
		outcome := events.Success
		switch {
		case p.IsError && strings.HasPrefix(output, declinedPrefix):
			outcome = events.Unknown
		case p.IsError || strings.HasPrefix(output, "<tool_use_error>"):
			outcome = events.Failure
		}
		c.addResultByID(p.ToolUseID, "", output, outcome)
	}
	if text := textOf(parts); text != "" {
		c.user(text)
		c.message = "" // the next assistant message is a new turn
	}
}

func (c *claudeSession) addResultEvent(l *claudeEvent) error {
	if answer, err := jsonText("result", l.Result); err == nil && answer != "" {
		c.answer = answer
	}
	c.run.Outcome = events.Outcome{Label: events.Unknown, Feedback: "result: " + l.Subtype}
	if l.IsError || strings.HasPrefix(l.Subtype, "error") {
		c.run.Outcome.Label, c.run.Outcome.By = events.Failure, sourceClaudeCode
	}
	c.run.Duration = validDuration(l.DurationMS / float64(time.Second/time.Millisecond))
	c.run.Usage = chat.Usage{
		Calls:        validCount(l.NumTurns),
		InputTokens:  validCount(l.Usage.Input + l.Usage.CacheRead + l.Usage.CacheWrite),
		OutputTokens: validCount(l.Usage.Output),
		Cost:         validCost(l.Cost),
	}
	return nil
}

func (c *claudeSession) end() (*run, error) {
	r, err := c.execution()
	if err != nil {
		return nil, err
	}
	r.name = printable(c.run.Session)
	r.Session, r.Started, r.Duration = shorten(c.run.Session, 256), c.run.Started, c.run.Duration
	r.Usage, r.Model = c.run.Usage, c.run.Model
	if c.run.Outcome.Label != "" {
		r.Outcome = c.run.Outcome
	}
	return r, nil
}
