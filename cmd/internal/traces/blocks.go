package traces

import (
	"encoding/json"
	"fmt"
	"strings"

	"debrief/cmd/internal/traces/messages"
)

// block is a part of a message's content. It has the fields of Claude Code and of OpenClaw.
type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
	ID   string `json:"id"`
	Name string `json:"name"`

	Arguments json.RawMessage `json:"arguments"` // toolCall
	Input     json.RawMessage `json:"input"`     // tool_use

	ToolUseID string          `json:"tool_use_id"` // tool_result
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// blocks decodes the content of a message: a list of parts, a string or null.
func blocks(field string, raw json.RawMessage) (list []block, err error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] == '"':
		s, err := messages.JSONText(field, raw)
		return []block{{Type: "text", Text: s}}, err
	case raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
		return list, nil
	}
	return nil, fmt.Errorf("field %s: want a string or a list of parts", field)
}

// textOf returns the text of a message's content, without thinking blocks.
func textOf(list []block) string {
	var text []string
	for _, b := range list {
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			text = append(text, b.Text)
		}
	}
	return strings.Join(text, "\n")
}

// thinking returns the number of thinking blocks.
func thinking(list []block) (n int) {
	for _, b := range list {
		if b.Type == "thinking" || b.Type == "redacted_thinking" {
			n++
		}
	}
	return n
}
