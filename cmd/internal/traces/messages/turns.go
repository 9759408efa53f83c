package messages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/events"
)

// Turn is a message of a conversation in any dialect: OpenAI chat and Responses, Anthropic, Gemini, LangChain, Vercel AI SDK,
// OpenTelemetry GenAI. Observability tools store the messages of all of them.
type Turn struct {
	Role    string // user, assistant, system or tool
	Text    string
	Calls   []Call
	Results []Result
	omitted source.Omissions // thinking and media of the message; may be nil
}

// Call is a tool call of a message. Arguments is JSON, or the text that was recorded.
type Call struct{ ID, Tool, Arguments string }

// Result is the result of a tool call. ID and Tool are empty if they were not recorded.
type Result struct {
	ID, Tool, Output string
	Failed           bool
}

// Roles maps the names of roles and message types to roles.
var Roles = map[string]string{
	"user": "user", "human": "user", "HumanMessage": "user", "HumanMessageChunk": "user",
	"assistant": "assistant", "ai": "assistant", "model": "assistant", "gemini": "assistant", "AIMessage": "assistant", "AIMessageChunk": "assistant",
	"system": "system", "developer": "system", "SystemMessage": "system",
	"tool": "tool", "function": "tool", "ToolMessage": "tool", "ToolMessageChunk": "tool", "FunctionMessage": "tool",
}

// MaxNesting is the maximum depth of containers around messages.
const MaxNesting = 8

// Parse returns the messages in a value: a message, a list of messages, an object with messages, a JSON text of one of
// these, or plain text. Role is the role of plain text and of parts without a message; if it is empty, they are ignored.
// Other content is ignored.
func Parse(raw json.RawMessage, role string) []Turn {
	return turnReader{role}.value(raw, 0)
}

type turnReader struct{ role string }

func (r turnReader) value(raw json.RawMessage, depth int) []Turn {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || depth > MaxNesting {
		return nil
	}
	switch raw[0] {
	case '"':
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil
		}
		return r.text(text, depth)
	case '[':
		return r.list(source.AsList(raw), depth)
	case '{':
		return r.object(source.AsObject(raw), depth)
	}
	return nil
}

// text reads plain text, or JSON in a text.
func (r turnReader) text(text string, depth int) []Turn {
	inner := json.RawMessage(strings.TrimSpace(text))
	if len(inner) > 0 && strings.IndexByte(`{["`, inner[0]) >= 0 && json.Valid(inner) {
		return r.value(inner, depth+1)
	}
	t := Turn{Role: r.role, Text: text}
	if text != "" && (text[0] == '{' || text[0] == '[') && strings.Contains(text, `":`) {
		t.omit(source.InvalidJSON)
	}
	if strings.TrimSpace(text) == "" || r.role == "" && t.omitted == nil {
		return nil
	}
	return []Turn{t}
}

func (r turnReader) list(list []json.RawMessage, depth int) (turns []Turn) {
	if len(list) > 0 {
		if o := source.AsObject(list[0]); o != nil && isPart(o) { // the parts of one message
			t := Turn{Role: cmp.Or(r.role, "assistant")}
			for _, raw := range list {
				t.AddPart(source.AsObject(raw))
			}
			return []Turn{t}
		}
	}
	for _, raw := range list {
		next := r.value(raw, depth+1)
		if len(next) == 1 && len(turns) > 0 && isItem(raw) {
			if last := &turns[len(turns)-1]; last.Role == "assistant" && len(last.Results) == 0 {
				last.Calls = append(last.Calls, next[0].Calls...) // items of one response
				continue
			}
		}
		turns = append(turns, next...)
	}
	return turns
}

// isItem reports whether an element is a call of the Responses API, which is not part of a message.
func isItem(raw json.RawMessage) bool {
	_, ok := itemCall(source.AsObject(raw))
	return ok
}

// isPart reports whether an object is a part of a message and no message.
func isPart(o *source.Object) bool {
	if o.HasAny("role", "content", "messages") && o.Text("type") != "text" {
		return false
	}
	switch o.Text("type") {
	case "text", "tool_use", "tool-call", "tool_call", "tool_result", "tool-result", "thinking", "output_text":
		return !o.HasAny("additional_kwargs", "response_metadata")
	}
	return o.Has("toolCallId", "toolName")
}

// inside lists the fields with messages, in the order of preference.
var inside = []string{"messages", "contents", "new_message", "message", "generations", "choices", "kwargs", "data", "input", "output", "prompt", "content"}

func (r turnReader) object(o *source.Object, depth int) []Turn {
	if o == nil {
		return nil
	}
	if t, ok := Item(o); ok {
		return t
	}
	if role := messageRole(o); role != "" {
		return ParseMessage(o, role)
	}
	if inner, role := langChainMessage(o); role != "" {
		return ParseMessage(inner, role)
	}
	for _, name := range inside {
		v := o.Get(name)
		if v == nil {
			continue
		}
		inner := r
		switch name {
		case "prompt":
			inner.role = "user"
		case "generations", "choices", "output":
			inner.role = "assistant"
		case "content":
			if v[0] != '{' && v[0] != '[' {
				return nil // a text without a role
			}
		}
		turns := inner.value(v, depth+1)
		if name == "choices" || name == "generations" { // the conversation continued with the first one
			turns = turns[:min(1, len(turns))]
		}
		if turns != nil && inner.role != "assistant" {
			turns = append(r.instructions(o), turns...)
		}
		if turns != nil {
			return turns
		}
	}
	if text := o.Text("text"); text != "" && r.role != "" {
		return []Turn{{Role: r.role, Text: text}}
	}
	return nil
}

// instructions returns the system prompt that is not one of the messages.
func (r turnReader) instructions(o *source.Object) []Turn {
	system := o.First("system", "system_instruction", "systemInstruction", "instructions")
	if config := o.Child("config"); system == nil && config != nil {
		system = config.First("system_instruction", "systemInstruction")
	}
	if system == nil {
		return nil
	}
	return turnReader{"system"}.value(system, MaxNesting-2)
}

// messageRole returns the role of a message, or "" for another object.
func messageRole(o *source.Object) string {
	if role := Roles[o.Text("role")]; role != "" && o.HasAny("content", "parts", "tool_calls", "toolCalls", "function_call", "text", "additional_kwargs") {
		return role
	} else if role == "assistant" {
		return role // without content
	}
	if o.Has("content") && !o.Has("role") {
		if role := Roles[o.Text("type")]; role != "" {
			return role
		}
	}
	return ""
}

// langChainMessage returns the fields and the role of a message as LangChain serializes it: {"lc", "type": "constructor", "id",
// "kwargs"} or {"type": "human", "data"}. The role of another object is "".
func langChainMessage(o *source.Object) (*source.Object, string) {
	if data := o.Child("data"); data != nil && data.Has("content") {
		return data, Roles[o.Text("type")]
	}
	id := source.AsList(o.Get("id"))
	if kwargs := o.Child("kwargs"); kwargs != nil && len(id) > 0 {
		return kwargs, Roles[ArgumentText(id[len(id)-1])]
	}
	return nil, ""
}

// ParseMessage parses a message with a role.
func ParseMessage(o *source.Object, role string) []Turn {
	t := Turn{Role: role}
	content := o.First("content", "parts", "text")
	if role == "tool" && !t.addToolMessage(o, content) {
		return nil
	}
	if role != "tool" {
		t.AddContent(content)
	}
	calls := o.First("tool_calls", "toolCalls")
	if more := o.Child("additional_kwargs"); len(source.AsList(calls)) == 0 && more != nil {
		calls = more.Get("tool_calls")
	}
	for _, raw := range source.AsList(calls) {
		if c := source.AsObject(raw); c != nil {
			t.AddCall(c)
		}
	}
	if f := o.Child("function_call"); f != nil && len(t.Calls) == 0 {
		t.AddCall(f)
	}
	return []Turn{t}
}

// addToolMessage adds the result in a message of a tool. It returns false for the definition of a tool, which LangChain's
// integration with Langfuse adds to the messages.
func (t *Turn) addToolMessage(o *source.Object, content json.RawMessage) bool {
	if c := source.AsObject(content); c != nil && c.Text("type") == "function" && c.Has("function") {
		return false
	}
	before := len(t.Results)
	for _, raw := range source.AsList(content) {
		if p := source.AsObject(raw); p != nil && (p.Text("type") == "tool-result" || p.Text("type") == "tool_call_response" || p.Text("type") == "tool_result") {
			t.AddPart(p)
		}
	}
	if len(t.Results) == before {
		id := cmp.Or(o.Text("tool_call_id"), o.Text("toolCallId"), o.Text("call_id"))
		failed := o.Text("status") == "error" || string(o.Get("is_error")) == "true"
		t.Results = append(t.Results, Result{id, o.Text("name"), ContentText(content), failed})
	}
	return true
}

// AddContent adds the content of a message: a text or a list of parts.
func (t *Turn) AddContent(content json.RawMessage) {
	if list := source.AsList(content); list != nil {
		for _, raw := range list {
			if p := source.AsObject(raw); p != nil {
				t.AddPart(p)
			} else {
				t.AddText(ContentText(raw))
			}
		}
		return
	}
	if o := source.AsObject(content); o != nil && o.Has("parts") {
		t.AddContent(o.Get("parts"))
		return
	}
	t.AddText(ContentText(content))
}

// AddText adds a text on a new line. It ignores blank text.
func (t *Turn) AddText(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if t.Text != "" {
		t.Text += "\n"
	}
	t.Text += text
}

func (t *Turn) omit(kind source.Omission) {
	if t.omitted == nil {
		t.omitted = source.Omissions{}
	}
	t.omitted.Add(kind, 1)
}

// AddPart adds a part of a message.
func (t *Turn) AddPart(p *source.Object) {
	if p == nil {
		return
	}
	switch kind := p.Text("type"); {
	case p.HasAny("function_call", "functionCall"): // Gemini
		t.AddCall(source.AsObject(p.First("function_call", "functionCall")))
	case p.HasAny("function_response", "functionResponse"):
		r := source.AsObject(p.First("function_response", "functionResponse"))
		t.Results = append(t.Results, Result{r.Text("id"), r.Text("name"), ResponseText(r.Get("response")), false})
	case strings.HasSuffix(kind, "tool_use"), kind == "tool-call", kind == "tool_call", p.Has("toolCallId", "toolName") && !p.HasAny("output", "result"):
		t.AddCall(p)
	case strings.HasSuffix(kind, "tool_result"), kind == "tool-result", kind == "tool_call_response", p.Has("toolCallId"):
		t.addResult(p)
	case kind == "thinking", kind == "reasoning", kind == "redacted_thinking", string(p.Get("thought")) == "true":
		t.omit(source.ThinkingBlocks)
	case p.HasAny("text", "refusal") || kind == "text":
		t.AddText(ContentText(p.First("text", "content", "refusal")))
	default:
		t.omit(source.MediaParts)
	}
}

// AddCall adds a tool call. OpenAI has the function in an inner object.
func (t *Turn) AddCall(c *source.Object) {
	if c == nil {
		return
	}
	call := Call{ID: cmp.Or(c.Text("id"), c.Text("toolCallId"), c.Text("call_id"), c.Text("tool_call_id"))}
	if f := c.Child("function"); f != nil {
		c = f
	}
	call.Tool = cmp.Or(c.Text("name"), c.Text("toolName"), "unknown")
	call.Arguments = ArgumentText(c.First("arguments", "args", "input"))
	t.Calls = append(t.Calls, call)
}

func (t *Turn) addResult(p *source.Object) {
	output := p.First("content", "output", "response", "result")
	failed := string(p.First("is_error", "isError")) == "true"
	if o := source.AsObject(output); o != nil && (strings.HasPrefix(o.Text("type"), "error-") || strings.HasSuffix(o.Text("type"), "tool_result_error")) {
		failed = true // of the Vercel AI SDK, or of a tool that Anthropic calls
	}
	id := cmp.Or(p.Text("tool_use_id"), p.Text("toolCallId"), p.Text("id"))
	t.Results = append(t.Results, Result{id, cmp.Or(p.Text("toolName"), p.Text("name")), ResponseText(output), failed})
}

// ArgumentText returns the arguments of a call as JSON text. It decodes arguments in a string, and removes the layout of an object
// over several lines.
func ArgumentText(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '"' {
		var s string
		_ = json.Unmarshal(raw, &s)
		return s
	}
	if compact := (bytes.Buffer{}); bytes.IndexByte(raw, '\n') >= 0 && json.Compact(&compact, raw) == nil {
		return compact.String()
	}
	return string(raw)
}

// ContentText returns the text of a value: of a string, of a list of parts, or the JSON of another value.
func ContentText(raw json.RawMessage) string {
	if text, err := JSONText("", raw); err == nil && (text != "" || raw == nil || raw[0] != '[') {
		return text
	}
	return string(raw)
}

// ResponseText returns the output of a tool. An object with a single text, such as {"output": "…"}, is that text.
func ResponseText(raw json.RawMessage) string {
	o := source.AsObject(raw)
	if o == nil {
		return ContentText(raw)
	}
	if v := o.First("output", "value", "error"); v != nil && len(o.Fields) <= 2 && (len(o.Fields) == 1 || o.Has("type")) {
		return ContentText(v)
	}
	if v := o.Get("content"); v != nil && len(o.Fields) == 1 {
		return ContentText(v)
	}
	return string(raw)
}

// Item parses an item of the Responses API other than a message.
func Item(o *source.Object) ([]Turn, bool) {
	if call, ok := itemCall(o); ok {
		turns := []Turn{{Role: "assistant", Calls: []Call{call}}}
		if r, ok := itemResult(o); ok {
			r.ID = call.ID
			turns = append(turns, Turn{Role: "tool", Results: []Result{r}})
		}
		return turns, true
	}
	switch kind := o.Text("type"); {
	case strings.HasSuffix(kind, "_call_output"):
		return []Turn{{Role: "tool", Results: []Result{{ID: cmp.Or(o.Text("call_id"), o.Text("id")), Output: ContentText(o.Get("output"))}}}}, true
	case kind == "reasoning":
		return []Turn{{Role: "assistant", omitted: source.Omissions{source.ThinkingBlocks: 1}}}, true
	case kind == "mcp_list_tools", strings.HasPrefix(kind, "mcp_approval_"), kind == "item_reference", kind == "compaction":
		return []Turn{{Role: "assistant", omitted: source.Omissions{source.HarnessMessages: 1}}}, true
	}
	return nil, false
}

// itemCall returns the call of an item of the Responses API.
func itemCall(o *source.Object) (Call, bool) {
	if o == nil {
		return Call{}, false
	}
	kind := o.Text("type")
	tool, ok := strings.CutSuffix(kind, "_call")
	if !ok || tool == "" || kind == "tool_call" {
		return Call{}, false
	}
	return Call{
		ID: cmp.Or(o.Text("call_id"), o.Text("id")), Tool: cmp.Or(o.Text("name"), tool),
		Arguments: ArgumentText(o.First("arguments", "input", "action", "code", "queries")),
	}, true
}

// itemResult returns the result that the item of a call itself has: that of a tool which the provider calls, such as mcp_call.
func itemResult(o *source.Object) (Result, bool) {
	if err := o.Get("error"); err != nil {
		return Result{Output: ContentText(err), Failed: true}, true
	}
	output, failed := o.First("output", "outputs", "results"), o.Text("status") == "failed"
	return Result{Output: ContentText(output), Failed: failed}, output != nil || failed
}

// AddTurns adds messages in any dialect.
func (c *Conversation) AddTurns(turns []Turn) {
	for i := range turns {
		c.AddAnyTurn(&turns[i], events.Step{})
	}
}

// AddAnyTurn adds a message in any dialect. About has the other fields of the step of an assistant.
func (c *Conversation) AddAnyTurn(t *Turn, about events.Step) {
	for kind, n := range t.omitted {
		c.Omit(kind, n)
	}
	var own []Result // of calls in the same message, by the provider
	for _, r := range t.Results {
		if slices.ContainsFunc(t.Calls, func(call Call) bool { return r.ID != "" && call.ID == r.ID }) {
			own = append(own, r)
		} else {
			c.AddTurnResult(r)
		}
	}
	defer func() {
		for _, r := range own {
			c.AddTurnResult(r)
		}
		if len(own) > 0 && len(own) == len(t.Calls) && t.Text != "" { // no call is left for the agent
			c.Answer = t.Text
		}
	}()
	switch {
	case t.Role == "system":
		c.Omit(source.SystemPrompts, 1)
	case t.Role == "user" && t.Text != "":
		c.User(t.Text)
	case t.Role == "assistant" && (t.Text != "" || len(t.Calls) > 0):
		about.Text = t.Text
		var ids []string
		for _, call := range t.Calls {
			ids = append(ids, call.ID)
			about.Calls = append(about.Calls, events.ToolCall{Tool: call.Tool, Arguments: call.Arguments, Outcome: events.Unknown})
		}
		c.AddTurn(false, about, ids)
	}
}

// AddTurnResult adds a result to the open call with its id, else to the first open call of its tool, else to the first one.
// It returns the call.
func (c *Conversation) AddTurnResult(r Result) OpenCall {
	at := -1
	for i, o := range c.Open {
		switch {
		case r.ID != "" && o.ID == r.ID:
			at = i
		case r.ID == "" && at < 0 && (r.Tool == "" || c.Steps[o.Step].Calls[o.Call].Tool == r.Tool):
			at = i
		}
	}
	if at < 0 && r.ID == "" && len(c.Open) > 0 {
		at = 0
	}
	if at < 0 {
		c.addUnknownCall(r.Tool)
		at = len(c.Open) - 1
	}
	outcome := events.Success
	open := c.Open[at]
	call := c.TakeCall(at)
	if r.Failed || c.Failed != nil && c.Failed(call.Tool, r.Output) {
		outcome = events.Failure
	}
	c.SetOutput(call, r.Output, outcome)
	return open
}
