package simulated

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// namedTool finds a tool that a text names in backquotes, with a JSON object of arguments after it.
var namedTool = regexp.MustCompile("`([A-Za-z0-9_.-]+)`\\s*(\\{.*\\})?")

// call returns the tool call that the model makes, or nil. It calls a tool if the request forces it to, or if the last message names one
// in backquotes: "Call `search` {"query": "ports"}." After a result it answers with text. Arguments that the message does not have follow
// from the schema of the tool.
func (c *conversation) call(r *Request) *Call {
	last := r.Last()
	isAnswered := len(last.Results) > 0 && !r.Choice.Forced
	if r.Choice.None || isAnswered {
		return nil
	}
	permitted := r.Tools
	if r.Choice.Name != "" {
		permitted = slices.DeleteFunc(slices.Clone(permitted), func(t Tool) bool { return t.Name != r.Choice.Name })
	}
	if len(permitted) == 0 {
		return nil
	}
	if last.Role == "user" {
		for _, match := range namedTool.FindAllStringSubmatch(last.Text, -1) {
			name, arguments := match[1], match[2]
			i := slices.IndexFunc(permitted, func(t Tool) bool { return t.Name == name })
			if i < 0 {
				continue
			}
			if !json.Valid([]byte(arguments)) {
				arguments = exampleArguments(permitted[i])
			}
			return &Call{Name: name, Arguments: arguments}
		}
	}
	if r.Choice.Forced {
		return &Call{Name: permitted[0].Name, Arguments: exampleArguments(permitted[0])}
	}
	return nil
}

// exampleArguments returns arguments that follow from the schema of a tool.
func exampleArguments(t Tool) string {
	var s schema
	_ = json.Unmarshal(t.Schema, &s) // an unknown schema has no required arguments
	s.Type = "object"
	return worlds.ReplyJSON(s.example())
}

// schema is the part of a JSON schema that examples follow.
type schema struct {
	Type       string            `json:"type"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// example returns a value of the schema with the required properties.
func (s *schema) example() any {
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.Type {
	case "object":
		out := map[string]any{}
		for _, name := range s.Required {
			property := s.Properties[name]
			out[name] = property.example()
		}
		return out
	case "array":
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	}
	return fingerprint // any text would do
}

// lastResult returns the start of the last message if it is the result of a tool, else "".
func (c *conversation) lastResult() string {
	if len(c.said) == 0 || c.said[len(c.said)-1].Speaker != "tool" {
		return ""
	}
	const maxBytes = 200
	text := c.said[len(c.said)-1].Text
	return strings.ToValidUTF8(text[:min(len(text), maxBytes)], "")
}
