package modelapi

import (
	"cmp"
	"regexp"
	"slices"
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

// Find returns the messages in a recorded text; see Value.Messages.
func Find(raw []byte, role Role) []Item { return ParseValue(raw).Messages(role) }

// Messages returns the messages in a recorded value: a message, a list of messages, an object with messages, a JSON text of one of
// these, or plain text, in any dialect: OpenAI chat and responses, Anthropic, Gemini, LangChain, Vercel AI SDK, OpenTelemetry GenAI.
// role is the role of plain text and of parts without a message. If it is empty, the text is ignored, and a list of parts is a message of
// the assistant. Other content is ignored.
func (v Value) Messages(role Role) []Item { return finder{role}.value(v, 0) }

// Content returns a message whose content is the value: a text, a list of parts, or null.
func (v Value) Content(role Role) Item {
	m := message{Item: Item{Role: role}}
	m.addContent(v)
	m.attachResults()
	return m.item()
}

// Call returns a recorded tool call. It reports false for another value.
func (v Value) Call() (ToolCall, bool) {
	var m message
	m.addCall(v)
	if len(m.Calls) == 0 {
		return ToolCall{}, false
	}
	return m.Calls[0], true
}

// Tools returns the definitions in a list of tools, in any dialect: OpenAI has a tool in an inner object, Gemini several in one, and some
// recorders only their names.
func (v Value) Tools() (tools []Tool) {
	for each := range v.Elements() {
		if list := each.First("functionDeclarations", "function_declarations"); list.Kind() == '[' {
			tools = append(tools, list.Tools()...)
			continue
		}
		if inner := each.First("function", "custom"); inner.Kind() == '{' {
			each = inner
		}
		if name := cmp.Or(each.Text("name"), each.Text("title"), each.Text("type"), each.Text()); name != "" {
			tools = append(tools, Tool{name, each.Text("description")})
		}
	}
	return tools
}

// IsItem reports whether the value is an item of the Responses API other than a message.
func (v Value) IsItem() bool { return v.Text("role") == "" && new(message).addItem(v) }

// WantMessages returns the messages of a list, in any dialect, and notes the problem of the first element that is not a message.
func (v Value) WantMessages(key string) []Item {
	list := v.Want('[', key)
	for element := range list.Elements() {
		element.WantMessage()
	}
	return finder{}.list(list, 0)
}

// WantMessage notes a problem if the value is not a message of a known dialect.
func (v Value) WantMessage() {
	if !v.WantObject() {
		return
	}
	fields, role := langChainMessage(v)
	if role == "" {
		fields, role = v, cmp.Or(messageRole(v), roles[v.Text("role")])
	}
	if role == "" && !v.IsItem() {
		v.Note("role", "got %.40q, want system, user, assistant or tool", v.Text("role"))
	}
	fields.WantContent("content")
	fields.WantCalls("tool_calls", "function.name")
}

// WantCalls returns the calls in a list. It notes a problem for each call without the name of its tool; name is the path of that name in a call.
func (v Value) WantCalls(key, name string) (calls []ToolCall) {
	for each := range v.Want('[', key).Elements() {
		call := callOf(each)
		if call.Name == "" {
			each.Note(name, "is missing")
		}
		calls = append(calls, call)
	}
	return calls
}

// WantContent returns a member with the content of a message. It notes a problem unless the content is a text, a part, a list of parts or
// null.
func (v Value) WantContent(key string) Value {
	content := v.Get(key)
	switch content.Kind() {
	case 'n', '"', '{':
		return content
	case '[':
		for part := range content.Elements() {
			if kind := part.Kind(); kind != '{' && kind != '"' {
				part.Note("", "got a JSON %s, want a string or a part", kindNames[kind])
			}
		}
		return content
	}
	v.Note(key, "got a JSON %s, want a string or a list of parts", kindNames[content.Kind()])
	return Value{}
}

// finder finds messages in values. role is the parameter of Value.Messages. The parameter depth of its methods is the number of containers
// around the value.
type finder struct{ role Role }

// value returns the messages in a value.
func (f finder) value(v Value, depth int) []Item {
	if depth > MaxNesting {
		return nil
	}
	switch v.Kind() {
	case '"':
		return f.text(v.Text(), depth)
	case '[':
		return f.list(v, depth)
	case '{':
		return f.object(v, depth)
	}
	return nil
}

// text reads plain text, or JSON in a text.
func (f finder) text(text string, depth int) []Item {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil
	}
	isInvalidJSON := false
	if strings.IndexByte(`{["`, trimmed[0]) >= 0 {
		if v := ParseValue([]byte(trimmed)); v.IsSet() {
			return f.value(v, depth+1)
		}
		isInvalidJSON = trimmed[0] != '"' && strings.Contains(trimmed, `":`)
	}
	if items := transcript(text); items != nil && f.role == RoleUser {
		return items
	}
	item := Item{Role: f.role, Text: text}
	switch {
	case isInvalidJSON: // also without a role: the reader reports the number of invalid texts
		item.Invalid++
	case f.role == "":
		return nil
	}
	return []Item{item}
}

// list returns the messages in a list: those of its elements, or one message of which the elements are the parts.
func (f finder) list(v Value, depth int) (items []Item) {
	if isParts(v) {
		m := message{Item: Item{Role: cmp.Or(f.role, RoleAssistant)}}
		m.addContent(v)
		m.attachResults()
		return []Item{m.item()}
	}
	for e := range v.Elements() {
		next := f.value(e, depth+1)
		last := len(items) - 1
		ofLast := isCall(e) && len(next) == 1 && last >= 0 && items[last].Role == RoleAssistant
		if !ofLast {
			items = append(items, next...)
			continue
		}
		// The Responses API has the text and the calls of one response as several items.
		items[last].Calls = append(items[last].Calls, next[0].Calls...)
	}
	return items
}

// isParts reports whether a list has the parts of one message, and no messages. The type of the first element decides: {"type": "text"} is a
// part, {"type": "ai", "content": …} is a message.
func isParts(list Value) bool {
	first := list.FirstElement()
	switch first.Text("type") {
	case "text":
		return true
	case "tool_result", "tool-result", "tool_call_response": // also with a content
		return !first.HasAny("role", "messages")
	case "tool_use", "tool-call", "tool_call", "thinking", "output_text":
		return !first.HasAny("role", "messages", "content")
	}
	return first.HasAll("toolCallId", "toolName") && !first.HasAny("role", "messages", "content")
}

// isCall reports whether an element is a call of the Responses API, which is not part of a message.
func isCall(v Value) bool {
	kind := v.Text("type")
	return strings.HasSuffix(kind, "_call") && kind != "tool_call" && v.Text("role") == ""
}

// containers lists the fields with messages, in the order of preference.
var containers = []string{
	"messages", "contents", "new_message", "message", "generations", "choices", "candidates", "kwargs", "data",
	"input", "output", "prompt", "content",
}

// object returns the message that an object is, or the messages in the first of its fields that has some.
func (f finder) object(v Value, depth int) []Item {
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
		member := v.Get(name)
		isScalar := member.IsSet() && member.Kind() != '{' && member.Kind() != '['
		if name == "content" && isScalar {
			return nil // a text without a role is no message
		}
		if items := f.inside(v, name, depth); items != nil {
			return items
		}
	}
	if text := v.Text("text"); text != "" && f.role != "" {
		return []Item{{Role: f.role, Text: text}}
	}
	return nil
}

// inside returns the messages in a field of an object, or nil.
func (f finder) inside(v Value, name string, depth int) []Item {
	inner := f
	switch name {
	case "prompt":
		inner.role = RoleUser
	case "generations", "choices", "candidates", "output":
		inner.role = RoleAssistant
	}
	items := inner.value(v.Get(name), depth+1)
	if len(items) == 0 {
		return nil
	}
	switch name {
	case "choices", "candidates", "generations": // alternatives: the conversation continued with the first one
		items = append(callsOfSDK(v, depth), items[0])
	}
	if inner.role != RoleAssistant { // a request: its system prompt can be in a field beside the messages
		items = append(instructions(v), items...)
	}
	return items
}

// callsOfSDK returns the calls that the SDK of Gemini made before a response, and their results. It leaves out the other messages in the
// history of the SDK, such as the prompt.
func callsOfSDK(v Value, depth int) []Item {
	history := v.First("automatic_function_calling_history", "automaticFunctionCallingHistory")
	items := finder{}.value(history, depth+1)
	return slices.DeleteFunc(items, func(i Item) bool { return len(i.Calls)+len(i.Results) == 0 })
}

// instructions returns the system prompt in a field of a request, or nil.
func instructions(v Value) []Item {
	system := v.First("system", "system_instruction", "systemInstruction", "instructions")
	if !system.IsSet() {
		system = v.Get("config").First("system_instruction", "systemInstruction")
	}
	const depth = MaxNesting - 2 // allows two more levels: a system prompt is a text, or parts in a list or object
	return finder{RoleSystem}.value(system, depth)
}

// messageRole returns the role of a message, or "" for another object.
func messageRole(v Value) Role {
	role := roles[v.Text("role")]
	if role == RoleAssistant { // its message may have no content
		return role
	}
	if role != "" && v.HasAny("content", "parts", "tool_calls", "toolCalls", "function_call", "text", "additional_kwargs") {
		return role
	}
	if v.HasAny("content") && !v.HasAny("role") { // such as {"type": "human", "content": …}
		return roles[v.Text("type")]
	}
	return ""
}

// langChainMessage returns the fields and the role of a message as LangChain serializes it: {"lc", "type": "constructor", "id",
// "kwargs"} or {"type": "human", "data"}. The role of another object is "".
func langChainMessage(v Value) (Value, Role) {
	if data := v.Get("data"); data.HasAny("content") {
		return data, roles[v.Text("type")]
	}
	var class string // the last element of the path of the class
	for name := range v.Get("id").Elements() {
		class = name.Text()
	}
	if kwargs := v.Get("kwargs"); kwargs.Kind() == '{' {
		return kwargs, roles[class]
	}
	return Value{}, ""
}

// findMessage returns a message with a role. It returns nil for the definition of a tool, which has the role of a tool but no result.
func findMessage(v Value, role Role) []Item {
	m := message{Item: Item{Role: role}}
	m.addMessage(v)
	if role == RoleTool && len(m.Results) == 0 {
		return nil
	}
	return []Item{m.item()}
}

// transcriptMark matches the beginning of a message in a prompt of lines such as "user: text".
var transcriptMark = regexp.MustCompile(`(?m)^(system|developer|user|human|assistant|ai|model|tool): ?`)

// transcript returns the messages of a prompt that a recorder wrote as one text of lines such as "user: text". It leaves out a message of
// the assistant with the text None, which has no text. It returns nil for another text, and for one without a message of the user.
func transcript(text string) (items []Item) {
	marks := transcriptMark.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 || marks[0][0] != 0 {
		return nil
	}
	hasUser := false
	for i, mark := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		item := Item{Role: roles[text[mark[2]:mark[3]]], Text: strings.TrimSpace(text[mark[1]:end])}
		switch {
		case item.Role == RoleTool:
			item = Item{Role: RoleTool, Results: []ToolResult{{Output: item.Text}}}
		case item.Role == RoleAssistant && item.Text == "None":
			continue
		}
		hasUser = hasUser || item.Role == RoleUser
		items = append(items, item)
	}
	if !hasUser {
		return nil
	}
	return items
}
