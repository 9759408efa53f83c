package modelapi

import (
	"cmp"
	"strings"
)

// message collects the content of one message or item.
type message struct {
	Item
	texts   []string
	others  []value // parts and members of other kinds, which only the hash covers
	refused bool    // a part is a refusal of the model
}

// item returns the message as an item.
func (m *message) item() Item {
	m.Text = joinTexts(m.texts)
	return m.Item
}

// joinTexts joins the texts of parts as Item.Text has them.
func joinTexts(texts []string) string { return strings.Join(texts, "\n\n") }

// addText adds a text. A blank one changes nothing, because APIs write a message without text in several ways.
func (m *message) addText(text string) {
	if strings.TrimSpace(text) != "" {
		m.texts = append(m.texts, text)
	}
}

func (m *message) addRefusal(text string) {
	m.refused = m.refused || text != ""
	m.addText(text)
}

// addOther adds a part without text, such as an image.
func (m *message) addOther(v value) {
	m.Omitted.Media++
	m.others = append(m.others, v)
}

// addMessage adds a message with a role: of the chat completions API, the Messages API, or a recorder.
func (m *message) addMessage(v value) {
	content := v.first("content", "parts", "text")
	if m.Role == RoleTool {
		m.addToolMessage(v, content)
		return
	}
	m.addContent(content)
	m.addRefusal(v.textAt("refusal"))
	for _, key := range []string{"name", "audio"} {
		if member := v.get(key); member.isSet() {
			m.others = append(m.others, member)
		}
	}
	calls := v.first("tool_calls", "toolCalls")
	if !hasElements(calls) {
		calls = v.get("additional_kwargs", "tool_calls") // of LangChain
	}
	for call := range calls.elements() {
		m.addCall(call)
	}
	if call := v.get("function_call"); call.kind() == '{' && len(m.Calls) == 0 {
		m.addCall(call)
	}
	m.attachResults()
}

func hasElements(v value) bool {
	for range v.elements() {
		return true
	}
	return false
}

// addToolMessage adds the message of a tool: its result, or parts with results. It adds nothing for the definition of a tool,
// which LangChain's integration with Langfuse adds to the messages.
func (m *message) addToolMessage(v, content value) {
	if content.textAt("type") == "function" && content.has("function") {
		return
	}
	for part := range content.elements() {
		switch part.textAt("type") {
		case "tool-result", "tool_call_response", "tool_result":
			m.addResult(part)
		}
	}
	if len(m.Results) > 0 {
		return
	}
	id := v.id("tool_call_id", "toolCallId", "call_id")
	if ids := v.get("tool_call_ids"); id == "" { // of SWE-agent
		for first := range ids.elements() {
			id = first.text()
			break
		}
	}
	m.Results = append(m.Results, ToolResult{CallID: id, Name: v.textAt("name"), Output: m.outputText(content), Failed: failedMark(v, content)})
}

// addContent adds the content of a message: a text, a list of parts, a part, or null.
func (m *message) addContent(v value) {
	switch v.kind() {
	case '[':
		for part := range v.elements() {
			m.addPart(part)
		}
	case '{':
		if parts := v.get("parts"); parts.isSet() {
			m.addContent(parts)
			return
		}
		m.addPart(v)
	default:
		m.addPart(v)
	}
}

// addPart adds one part. The names of types are disjoint in all dialects.
func (m *message) addPart(v value) {
	if v.kind() != '{' {
		m.addText(v.text())
		return
	}
	switch kind := v.textAt("type"); {
	case v.has("function_call", "functionCall"): // Gemini
		m.addCall(v.first("function_call", "functionCall"))
	case v.has("function_response", "functionResponse"):
		r := v.first("function_response", "functionResponse")
		m.Results = append(m.Results, ToolResult{CallID: r.id("id"), Name: r.textAt("name"), Output: m.outputText(r.get("response")), Failed: failedMark(r, r.get("response"))})
	case isResultPart(v, kind):
		m.addResult(v)
	case strings.HasSuffix(kind, "tool_use"), kind == "tool-call", kind == "tool_call", kind == "toolCall", v.has("toolCallId") && v.has("toolName"):
		m.addCall(v)
	case kind == "thinking", kind == "reasoning", kind == "redacted_thinking", v.get("thought").kind() == 't':
		m.Omitted.Thoughts++
	case kind == "refusal":
		m.addRefusal(v.textAt("refusal"))
	case kind == "text", v.get("text").kind() == '"':
		m.addText(outputText(v.first("text", "content")))
	default:
		m.addOther(v)
	}
}

// isResultPart reports whether a part is the result of a tool. The Vercel AI SDK once wrote calls and results without a type.
func isResultPart(v value, kind string) bool {
	switch {
	case strings.HasSuffix(kind, "tool_result"), kind == "tool-result", kind == "tool_call_response":
		return true
	case strings.HasSuffix(kind, "tool_use"), kind == "tool-call", kind == "tool_call":
		return false
	}
	return v.has("toolCallId") && (v.has("output", "result") || !v.has("toolName"))
}

// addCall adds a tool call.
func (m *message) addCall(v value) {
	if v.kind() == '{' {
		call := callOf(v)
		call.Name = cmp.Or(call.Name, "unknown")
		m.Calls = append(m.Calls, call)
	}
}

// callOf returns a tool call, or a part of one in a stream. OpenAI has the function in an inner object.
func callOf(v value) ToolCall {
	call := ToolCall{ID: v.id("call_id", "id", "toolCallId", "tool_call_id")}
	if inner := v.first("function", "custom"); inner.kind() == '{' {
		v = inner
	}
	call.Name = cmp.Or(v.textAt("name"), v.textAt("toolName"), v.textAt("tool_name"))
	call.Arguments = argumentText(v.first("arguments", "args", "input"))
	return call
}

// argumentText returns the arguments of a call: JSON without spaces, or a text that already is JSON or free text.
func argumentText(v value) string {
	if v.kind() == '"' {
		return v.text()
	}
	return v.compact()
}

// addResult adds the part with the result of a tool.
func (m *message) addResult(v value) {
	output := v.first("content", "output", "response", "result")
	m.Results = append(m.Results, ToolResult{
		CallID: v.id("tool_use_id", "toolCallId", "tool_call_id", "id"), Name: cmp.Or(v.textAt("toolName"), v.textAt("name")),
		Output: m.outputText(output), Failed: failedMark(v, output),
	})
}

// attachResults moves the results of calls in the same message to these calls: the provider ran them.
func (m *message) attachResults() {
	var rest []ToolResult
	for _, r := range m.Results {
		if call := findCall(m.Calls, r.CallID); call != nil {
			call.Result = &r
		} else {
			rest = append(rest, r)
		}
	}
	m.Results = rest
}

// findCall returns the call with an id and without a result, or nil.
func findCall(calls []ToolCall, id string) *ToolCall {
	for i := range calls {
		if id != "" && calls[i].ID == id && calls[i].Result == nil {
			return &calls[i]
		}
	}
	return nil
}

// addItem adds an item of the Responses API and sets the role. It reports false for a message.
func (m *message) addItem(v value) bool {
	kind := v.textAt("type")
	name, isCall := strings.CutSuffix(kind, "_call")
	m.Role = RoleAssistant
	switch {
	case kind == "reasoning":
		m.Omitted.Thoughts++
	case strings.HasSuffix(kind, "_call_output"):
		m.Role = RoleTool
		output := v.get("output")
		m.Results = append(m.Results, ToolResult{CallID: v.id("call_id", "id"), Output: m.outputText(output), Failed: failedMark(v, output)})
	case isCall && name != "" && name != "tool":
		m.addItemCall(v, name)
	case strings.HasPrefix(kind, "mcp_"), kind == "item_reference", strings.HasSuffix(kind, "compaction"):
		if strings.HasSuffix(kind, "_response") { // of the client, to a request for approval
			m.Role = RoleTool
		}
		m.Omitted.Records++
		m.others = append(m.others, v)
	default:
		return false
	}
	return true
}

// addItemCall adds the call of an item. A call of a tool that the provider ran has no call id, and has its result.
func (m *message) addItemCall(v value, name string) {
	call := ToolCall{
		ID: v.id("call_id", "id"), Name: cmp.Or(v.textAt("name"), name),
		Arguments: argumentText(v.first("arguments", "input", "action", "actions", "operation", "code", "queries")),
	}
	output, failed := v.first("output", "outputs", "results"), failedMark(v, value{})
	if problem := v.get("error"); problem.isSet() {
		output, failed = problem, new(true)
	}
	done := v.textAt("status") == "completed"
	client := v.has("call_id") || name == "function" || name == "custom_tool"
	if output.isSet() || failed != nil && *failed || !client && done {
		if done && !output.isSet() {
			failed = cmp.Or(failed, new(false))
		}
		call.Result = &ToolResult{CallID: call.ID, Output: m.outputText(output), Failed: failed}
		m.others = append(m.others, v)
	}
	m.Calls = append(m.Calls, call)
}
