package modelapi

import (
	"cmp"
	"encoding/json"
	"strings"
)

// chatParser builds the reply of the chat completions API from the first choice.
type chatParser struct {
	partialReply
	// The text, the refusal and the calls of a stream.
	text    strings.Builder
	refusal strings.Builder
	calls   []*callParts
}

// callParts is a call whose arguments arrive in parts.
type callParts struct {
	id, name  string
	index     string // empty if the server gives none
	arguments strings.Builder
}

func (p *chatParser) whole(root Value) {
	choices := root.Get("choices")
	hasError := p.addShared(root)
	if !hasError && choices.Kind() != '[' {
		p.r = unknownReply(root)
		return
	}
	for choice := range choices.Elements() {
		if isFirst(choice, choices) {
			p.message = message{Item: Item{Role: RoleAssistant}}
			p.message.addMessage(choice.Get("message"))
			p.reason, p.ended = choice.Text("finish_reason"), true
		}
	}
}

func (p *chatParser) event(_ string, root Value) {
	p.addShared(root)
	choices := root.Get("choices")
	for choice := range choices.Elements() {
		if isFirst(choice, choices) {
			p.addDelta(choice.First("delta", "message"))
			choice.setText(&p.reason, "finish_reason")
		}
	}
}

// isFirst reports whether a choice has the index 0. Without an index, it is the first of the list.
func isFirst(choice, choices Value) bool {
	index := choice.Get("index")
	return index.Int() == 0 && (index.IsSet() || choice == choices.FirstElement())
}

// addShared reads the fields that responses and chunks of a stream share. It reports whether there is an error.
func (p *chatParser) addShared(root Value) bool {
	p.head(root)
	problem := failure(root)
	if problem != "" {
		p.r.fail(problem)
	}
	return problem != ""
}

// addDelta adds the delta of a choice.
func (p *chatParser) addDelta(v Value) {
	content := v.Get("content")
	p.text.WriteString(content.Text())
	for part := range content.Elements() {
		p.text.WriteString(part.Text("text"))
	}
	p.refusal.WriteString(v.Text("refusal"))
	if call := v.Get("function_call"); call.Kind() == '{' {
		p.addCall(call, "function_call")
	}
	for call := range v.Get("tool_calls").Elements() {
		p.addCall(call, string(call.Get("index").Raw()))
	}
}

// addCall adds a part of a call. The id and the name are usually in its first part only.
func (p *chatParser) addCall(v Value, index string) {
	if v.Kind() != '{' {
		return
	}
	part := callOf(v)
	call := p.findCall(&part, index)
	if call == nil {
		call = &callParts{index: index}
		p.calls = append(p.calls, call)
	}
	call.id, call.name = cmp.Or(part.ID, call.id), cmp.Or(part.Name, call.name)
	if v.Get("function", "arguments").Kind() == '{' { // some servers send the object at once
		call.arguments.Reset()
	}
	call.arguments.WriteString(part.Arguments)
}

// findCall returns the call that a part continues, or nil if the part begins a call. Of several calls that fit, it is the last one. Some
// servers give all calls the index 0 or one id, so the name decides too.
func (p *chatParser) findCall(part *ToolCall, index string) *callParts {
	var found *callParts
	for _, call := range p.calls {
		if call.fits(part, index) {
			found = call
		}
	}
	if found == nil || found.endsBefore(part) {
		return nil
	}
	return found
}

// fits reports whether a part may continue the call: by its id, else by its index. A part without id, index and name fits each call.
func (c *callParts) fits(part *ToolCall, index string) bool {
	hasOtherIndex := index != "" && c.index != "" && index != c.index
	switch {
	case hasOtherIndex:
		return false
	case part.ID != "" && c.id != "":
		return part.ID == c.id
	case index != "":
		return index == c.index
	}
	return part.ID == "" && part.Name == ""
}

// endsBefore reports whether a part that fits begins the next call: it has another name, or it has the same name and arguments although
// those of the call are complete.
func (c *callParts) endsBefore(part *ToolCall) bool {
	if part.Name == "" || c.name == "" {
		return false
	}
	if part.Name != c.name {
		return true
	}
	return part.Arguments != "" && json.Valid([]byte(c.arguments.String()))
}

func (p *chatParser) reply() *Reply {
	m := p.message
	m.addText(p.text.String())
	m.addRefusal(p.refusal.String())
	for _, call := range p.calls {
		m.Calls = append(m.Calls, ToolCall{ID: call.id, Name: call.name, Arguments: call.arguments.String()})
	}
	return p.finish(&m)
}
