package steps

import (
	"encoding/json"
	"strings"
)

// ToolFailed reports whether a tool's output looks like an error: by its first words, or as an object with an error.
func ToolFailed(_, output string) bool {
	return strings.HasPrefix(output, "Error") || strings.HasPrefix(output, "error:") || strings.HasPrefix(output, agentsError) || ReportsError(output)
}

// agentsError begins the result of a tool that raised an exception, in OpenAI's Agents SDK.
const agentsError = "An error occurred while running the tool."

// ReportsError reports whether a tool's output is a JSON object with an error.
func ReportsError(output string) bool {
	var report struct {
		Status string          `json:"status"`
		Error  json.RawMessage `json:"error"`
	}
	if !strings.HasPrefix(strings.TrimSpace(output), "{") || !mentionsError(output) || json.Unmarshal([]byte(output), &report) != nil {
		return false
	}
	switch string(report.Error) {
	case "", "null", "false", `""`, "{}", "[]":
		return report.Status == "error"
	}
	return true
}

// mentionsError reports whether a JSON text can contain the word "error". Most outputs do not, so that they are not decoded.
func mentionsError(output string) bool {
	return strings.Contains(output, "rror") || strings.Contains(output, "RROR") || strings.Contains(output, `\u`)
}
