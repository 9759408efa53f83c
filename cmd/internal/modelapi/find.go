package modelapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// roles maps the names of roles and of message types to roles.
var roles = map[string]Role{
	"user": RoleUser, "human": RoleUser, "HumanMessage": RoleUser, "HumanMessageChunk": RoleUser,
	"assistant": RoleAssistant, "ai": RoleAssistant, "model": RoleAssistant, "gemini": RoleAssistant,
	"AIMessage": RoleAssistant, "AIMessageChunk": RoleAssistant,
	"system": RoleSystem, "developer": RoleSystem, "SystemMessage": RoleSystem,
	"tool": RoleTool, "function": RoleTool, "ToolMessage": RoleTool, "ToolMessageChunk": RoleTool, "FunctionMessage": RoleTool,
}

// RoleOf returns the role with a name of a role or of a type of messages in any dialect, or "".
func RoleOf(name string) Role { return roles[name] }

// MaxNesting is the maximum depth of containers around messages.
const MaxNesting = 8

// Find returns the messages in a recorded value: a message, a list of messages, an object with messages, a JSON text of one of
// these, or plain text, in any dialect: OpenAI chat and responses, Anthropic, Gemini, LangChain, Vercel AI SDK, OpenTelemetry GenAI.
// Role is the role of plain text and of parts without a message; if it is empty, they are ignored. Other content is ignored.
func Find(raw json.RawMessage, role Role) []Item {
	return finder{role}.value(parseValue(raw), 0)
}

// FindItem returns the content of an item of the Responses API. It reports false for a message and any other value.
func FindItem(raw json.RawMessage) (Item, bool) {
	var m message
	v := parseValue(raw)
	if v.textAt("role") != "" || !m.addItem(v) {
		return Item{}, false
	}
	return m.item(), true
}

// ParseContent returns a message with the content given: a text, a list of parts, or null.
func ParseContent(role Role, content json.RawMessage) Item {
	m := message{Item: Item{Role: role}}
	m.addContent(parseValue(content))
	m.attachResults()
	return m.item()
}

// ParseMessage parses a message of a recorded conversation. It returns an error that names the field if the value is not an object,
// the role is unknown, the content is neither text nor parts, or a call has no name.
func ParseMessage(raw json.RawMessage) (Item, error) {
	v, err := new(document).parse(raw)
	if err != nil {
		return Item{}, fmt.Errorf("not valid JSON: %w", err)
	}
	if v.kind() != '{' {
		return Item{}, fmt.Errorf("got a JSON %s, want an object", kindName(v))
	}
	m := message{Item: Item{Role: roles[v.textAt("role")]}}
	if m.Role == "" {
		return Item{}, fmt.Errorf("field role: got %.40q, want system, user, assistant or tool", v.textAt("role"))
	}
	if _, err := contentText("content", v.get("content")); err != nil {
		return Item{}, err
	}
	if calls := v.get("tool_calls"); calls.isSet() && calls.kind() != '[' {
		return Item{}, fmt.Errorf("field tool_calls: got a JSON %s, want a list", kindName(calls))
	}
	i := 0
	for call := range v.get("tool_calls").elements() {
		if callOf(call).Name == "" {
			return Item{}, fmt.Errorf("tool_calls[%d]: field function.name: is missing", i)
		}
		i++
	}
	m.addMessage(v)
	return m.item(), nil
}

func kindName(v value) string {
	switch v.kind() {
	case '"':
		return "string"
	case '0':
		return "number"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't', 'f':
		return "bool"
	}
	return "null"
}

// ContentText returns the text of a JSON string, of null, or of a list of parts. It returns an error that names the field for another
// value.
func ContentText(field string, raw json.RawMessage) (string, error) {
	return contentText(field, parseValue(raw))
}

func contentText(field string, v value) (string, error) {
	switch v.kind() {
	case 'n', '"':
		return v.text(), nil
	case '[':
		m := message{}
		for part := range v.elements() {
			if part.kind() != '{' {
				return "", fmt.Errorf("field %s: want a string or a list of parts", field)
			}
			m.addText(part.textAt("text"))
		}
		return joinTexts(m.texts), nil
	}
	return "", fmt.Errorf("field %s: want a string or a list of parts", field)
}

// finder finds messages. The role is that of plain text.
type finder struct{ role Role }

func (f finder) value(v value, depth int) []Item {
	if depth > MaxNesting {
		return nil
	}
	switch v.kind() {
	case '"':
		return f.text(v.text(), depth)
	case '[':
		return f.list(v, depth)
	case '{':
		return f.object(v, depth)
	}
	return nil
}

// text reads plain text, or JSON in a text.
func (f finder) text(text string, depth int) []Item {
	i := Item{Role: f.role, Text: text}
	if inner := strings.TrimSpace(text); inner != "" && strings.IndexByte(`{["`, inner[0]) >= 0 {
		if v := parseValue([]byte(inner)); !v.isMissing() {
			return f.value(v, depth+1)
		}
		if inner[0] != '"' && strings.Contains(inner, `":`) {
			i.Omitted.InvalidJSON++
		}
	}
	if strings.TrimSpace(text) == "" || f.role == "" && i.Omitted == (Omitted{}) {
		return nil
	}
	return []Item{i}
}

func (f finder) list(v value, depth int) (items []Item) {
	if f.isParts(v) {
		m := message{Item: Item{Role: cmp.Or(f.role, RoleAssistant)}}
		m.addContent(v)
		m.attachResults()
		return []Item{m.item()}
	}
	for e := range v.elements() {
		next := f.value(e, depth+1)
		if n := len(items); n > 0 && len(next) == 1 && isCall(e) && items[n-1].Role == RoleAssistant { // items of one response
			items[n-1].Calls = append(items[n-1].Calls, next[0].Calls...)
			continue
		}
		items = append(items, next...)
	}
	return items
}

// isParts reports whether a list has the parts of one message, and no messages.
func (f finder) isParts(list value) bool {
	for v := range list.elements() {
		if v.has("role", "content", "messages") && v.textAt("type") != "text" {
			return false
		}
		switch v.textAt("type") {
		case "text", "tool_use", "tool-call", "tool_call", "tool_result", "tool-result", "thinking", "output_text":
			return !v.has("additional_kwargs", "response_metadata")
		}
		return v.has("toolCallId") && v.has("toolName")
	}
	return false
}

// isCall reports whether an element is a call of the Responses API, which is not part of a message.
func isCall(v value) bool {
	kind := v.textAt("type")
	return strings.HasSuffix(kind, "_call") && kind != "tool_call" && v.textAt("role") == ""
}

// containers lists the fields with messages, in the order of preference.
var containers = []string{"messages", "contents", "new_message", "message", "generations", "choices", "kwargs", "data", "input", "output", "prompt", "content"}

func (f finder) object(v value, depth int) []Item {
	var m message
	if m.addItem(v) {
		return []Item{m.item()}
	}
	if role := messageRole(v); role != "" {
		return findMessage(v, role)
	}
	if inner, role := langChainMessage(v); role != "" {
		return findMessage(inner, role)
	}
	for _, name := range containers {
		if items, ok := f.inside(v, name, depth); ok {
			return items
		}
	}
	if text := v.textAt("text"); text != "" && f.role != "" {
		return []Item{{Role: f.role, Text: text}}
	}
	return nil
}

// inside returns the messages in a field of an object. It reports false if there are none, and the other fields may have some.
func (f finder) inside(v value, name string, depth int) ([]Item, bool) {
	member := v.get(name)
	inner := f
	switch name {
	case "prompt":
		inner.role = RoleUser
	case "generations", "choices", "output":
		inner.role = RoleAssistant
	case "content":
		if member.isSet() && member.kind() != '{' && member.kind() != '[' {
			return nil, true // a text without a role
		}
	}
	items := inner.value(member, depth+1)
	if name == "choices" || name == "generations" { // the conversation continued with the first one
		items = items[:min(1, len(items))]
	}
	if items != nil && inner.role != RoleAssistant {
		items = append(f.instructions(v), items...)
	}
	return items, items != nil
}

// instructions returns the system prompt that is not one of the messages.
func (f finder) instructions(v value) []Item {
	system := v.first("system", "system_instruction", "systemInstruction", "instructions")
	if !system.isSet() {
		system = v.get("config").first("system_instruction", "systemInstruction")
	}
	return finder{RoleSystem}.value(system, MaxNesting-2)
}

// messageRole returns the role of a message, or "" for another object.
func messageRole(v value) Role {
	role := roles[v.textAt("role")]
	if role == RoleAssistant || role != "" && v.has("content", "parts", "tool_calls", "toolCalls", "function_call", "text", "additional_kwargs") {
		return role
	}
	if v.has("content") && !v.has("role") {
		return roles[v.textAt("type")]
	}
	return ""
}

// langChainMessage returns the fields and the role of a message as LangChain serializes it: {"lc", "type": "constructor", "id",
// "kwargs"} or {"type": "human", "data"}. The role of another object is "".
func langChainMessage(v value) (value, Role) {
	if data := v.get("data"); data.has("content") {
		return data, roles[v.textAt("type")]
	}
	var class string
	for name := range v.get("id").elements() {
		class = name.text()
	}
	if kwargs := v.get("kwargs"); kwargs.kind() == '{' {
		return kwargs, roles[class]
	}
	return value{}, ""
}

// findMessage returns a message with a role. It returns nothing for the definition of a tool.
func findMessage(v value, role Role) []Item {
	m := message{Item: Item{Role: role}}
	m.addMessage(v)
	if role == RoleTool && len(m.Results) == 0 {
		return nil
	}
	return []Item{m.item()}
}

// ParseCall returns a recorded tool call. It reports false for another value.
func ParseCall(raw json.RawMessage) (ToolCall, bool) {
	var m message
	if m.addCall(parseValue(raw)); len(m.Calls) == 0 {
		return ToolCall{}, false
	}
	return m.Calls[0], true
}
