package modelapi

import (
	"cmp"
	"strings"
)

// message collects the content of one message or item. Its Text is empty until item joins the texts.
type message struct {
	Item
	texts   []string // of the parts
	refused bool     // a part is a refusal of the model
}

// item returns the message as an item.
func (m *message) item() Item {
	m.Text = joinTexts(m.texts)
	return m.Item
}

// joinTexts joins the texts of parts in the form of Item.Text.
func joinTexts(texts []string) string { return strings.Join(texts, "\n\n") }

// addText adds a text. A blank one changes nothing, because APIs write a message without text in several ways.
func (m *message) addText(text string) {
	if strings.TrimSpace(text) != "" {
		m.texts = append(m.texts, text)
	}
}

// addRefusal adds the text of a refusal. An empty one changes nothing.
func (m *message) addRefusal(text string) {
	m.refused = m.refused || text != ""
	m.addText(text)
}

// addMessage adds a message with a role: of the chat completions API, the Messages API, or a recorder.
func (m *message) addMessage(v Value) {
	content := v.First("content", "parts", "text")
	if m.Role == RoleTool {
		m.addToolMessage(v, content)
		return
	}
	m.addContent(content)
	m.addRefusal(v.Text("refusal"))
	calls := v.First("tool_calls", "toolCalls")
	if calls.Len() == 0 {
		calls = v.Get("additional_kwargs", "tool_calls") // of LangChain
	}
	for call := range calls.Elements() {
		m.addCall(call)
	}
	if call := v.Get("function_call"); call.Kind() == '{' && len(m.Calls) == 0 {
		m.addCall(call)
	}
	m.attachResults()
}

// addToolMessage adds the message of a tool: its result, or parts with results. It adds nothing for the definition of a tool,
// which LangChain's integration with Langfuse adds to the messages.
func (m *message) addToolMessage(v, content Value) {
	if content.Text("type") == "function" && content.HasAny("function") {
		return
	}
	for part := range content.Elements() {
		if isResultPart(part) {
			m.addResult(part)
		}
	}
	if len(m.Results) == 0 {
		m.addResult(v)
	}
}

// addContent adds the content of a message: a text, a list of parts, a part, or null.
func (m *message) addContent(v Value) {
	switch v.Kind() {
	case '[':
		for part := range v.Elements() {
			m.addPart(part)
		}
	case '{':
		if parts := v.Get("parts"); parts.IsSet() {
			m.addContent(parts)
			return
		}
		m.addPart(v)
	default:
		m.addPart(v)
	}
}

// addPart adds one part. The names of types are disjoint in all dialects.
func (m *message) addPart(v Value) {
	if v.Kind() != '{' {
		m.addText(v.Text())
		return
	}
	switch kind := v.Text("type"); {
	case v.HasAny("function_call", "functionCall"): // Gemini
		m.addCall(v.First("function_call", "functionCall"))
	case isResultPart(v):
		m.addResult(v)
	case strings.HasSuffix(kind, "tool_use"), kind == "tool-call", kind == "tool_call", kind == "toolCall":
		m.addCall(v)
	case v.HasAll("toolCallId", "toolName"): // a call of the Vercel AI SDK without a type
		m.addCall(v)
	case kind == "thinking", kind == "reasoning", kind == "redacted_thinking", v.IsTrue("thought"):
	case kind == "refusal":
		m.addRefusal(v.Text("refusal"))
	case kind == "text", v.Get("text").Kind() == '"':
		m.addText(outputText(v.First("text", "content")))
	} // others, such as an image, have no text
}

// isResultPart reports whether a part is the result of a tool. An old version of the Vercel AI SDK wrote calls and results without a type.
func isResultPart(v Value) bool {
	switch kind := v.Text("type"); {
	case strings.HasSuffix(kind, "tool_result"), kind == "tool-result", kind == "tool_call_response", v.HasAny("function_response", "functionResponse"):
		return true
	case strings.HasSuffix(kind, "tool_use"), kind == "tool-call", kind == "tool_call":
		return false
	}
	isCall := v.HasAny("toolName") && !v.HasAny("output", "result")
	return v.HasAny("toolCallId") && !isCall
}

// addCall adds a tool call.
func (m *message) addCall(v Value) {
	if v.Kind() == '{' {
		call := callOf(v)
		call.Name = cmp.Or(call.Name, "unknown")
		m.Calls = append(m.Calls, call)
	}
}

// The names of the members of calls and results in all APIs and recorders. The first one that is set is used. callIDs does not have "id": a
// message or an event with the id of a call has its own id there, so callID reads it last.
var (
	callIDs   = []string{"call_id", "tool_call_id", "toolCallId", "tool_use_id", "source_call_id", "tool_id"}
	toolNames = []string{"tool_name", "toolName", "name", "function_name", "function", "tool"}
	inputs    = []string{"arguments", "args", "input", "parameters", "action", "actions", "operation", "code", "queries"}
	outputs   = []string{"content", "parts", "output", "aggregated_output", "response", "result", "text"}
)

// callID returns the id of the call in a call or a result.
func callID(v Value) string {
	id := v.TextOrNumber(callIDs...)
	for each := range v.Get("tool_call_ids").Elements() { // of SWE-agent; the first one with a text counts
		id = cmp.Or(id, each.Text())
	}
	return cmp.Or(id, v.TextOrNumber("id"))
}

// callOf returns a tool call, or a part of one in a stream. OpenAI has the function in an inner object.
func callOf(v Value) ToolCall {
	call := ToolCall{ID: callID(v)}
	if inner := v.First("function", "custom"); inner.Kind() == '{' {
		v = inner
	}
	call.Name, call.Arguments = v.FirstText(toolNames...), v.First(inputs...).TextOrJSON()
	return call
}

// addResult adds the result of a tool: a message, a part, an item or an event with it.
func (m *message) addResult(v Value) {
	if inner := v.First("function_response", "functionResponse"); inner.IsSet() { // Gemini
		v = inner
	}
	output := v.First(outputs...)
	r := ToolResult{CallID: callID(v), Name: v.FirstText(toolNames...), Output: outputText(output), Signs: signsOf(v, output)}
	r.Output = cmp.Or(r.Output, v.Text("error"), v.Text("error", "message"), v.Text("rejection_reason"))
	m.Results = append(m.Results, r)
}

// attachResults moves the results of calls in the same message to ToolCall.Result: the provider ran these calls.
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

// addItem sets the role and adds the content of an item of the Responses API. For a message or another value it adds nothing and returns false.
func (m *message) addItem(v Value) bool {
	kind := v.Text("type")
	tool, isCall := strings.CutSuffix(kind, "_call")
	m.Role = RoleAssistant
	switch {
	case kind == "reasoning":
	case strings.HasSuffix(kind, "_call_output"):
		m.Role = RoleTool
		m.addResult(v)
	case isCall && tool != "" && tool != "tool": // "tool_call" is a part of a message
		m.addItemCall(v, tool)
	case strings.HasPrefix(kind, "mcp_"), kind == "item_reference", strings.HasSuffix(kind, "compaction"):
		if strings.HasSuffix(kind, "_response") { // the answer of the client to a request for approval
			m.Role = RoleTool
		}
	default:
		return false
	}
	return true
}

// addItemCall adds the call of an item. tool is the tool or only its kind, from the type of the item. A call that the provider ran has no call id,
// and its item has the result.
func (m *message) addItemCall(v Value, tool string) {
	call := callOf(v)
	call.Name = cmp.Or(call.Name, tool)
	output, signs := v.First("output", "outputs", "results"), signsOf(v, Value{})
	if problem := v.Get("error"); problem.IsSet() {
		output, signs.Error = problem, new(true)
	}
	isDone := signs.Status == "completed"
	ofClient := v.HasAny("call_id") || tool == "function" || tool == "custom_tool"
	hasResult := output.IsSet() || signs.Failed() || (isDone && !ofClient)
	if hasResult {
		if isDone && !output.IsSet() { // no error: the provider reports an error of its tool
			signs.Error = cmp.Or(signs.Error, new(false))
		}
		call.Result = &ToolResult{CallID: call.ID, Output: outputText(output), Signs: signs}
	}
	m.Calls = append(m.Calls, call)
}
