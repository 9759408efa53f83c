package traces

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
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
		s, err := jsonText(field, raw)
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

// reportsError reports whether a tool's output is a JSON object with an error.
func reportsError(output string) bool {
	var report struct {
		Status string          `json:"status"`
		Error  json.RawMessage `json:"error"`
	}
	if !strings.HasPrefix(strings.TrimSpace(output), "{") || json.Unmarshal([]byte(output), &report) != nil {
		return false
	}
	switch string(report.Error) {
	case "", "null", "false", `""`, "{}", "[]":
		return report.Status == "error"
	}
	return true
}

// parseTime returns a recorded time in UTC, or the zero time if it is invalid.
func parseTime(raw json.RawMessage) (t time.Time) {
	_ = json.Unmarshal(raw, &t)
	return t.UTC()
}

// validCost returns a recorded cost in US dollars, or 0 if it is negative, NaN or implausibly large.
func validCost(p float64) float64 {
	if p < 0 || p > 1e9 || math.IsNaN(p) {
		return 0
	}
	return p
}
