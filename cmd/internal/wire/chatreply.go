package wire

import "strings"

// chatParser builds the reply of the chat completions API from the first choice.
type chatParser struct {
	r       Reply
	message content // of a response without a stream
	reason  string
	// The deltas of a stream.
	text    strings.Builder
	refusal strings.Builder
	calls   []*callParts
	index   map[int]*callParts
}

// callParts is a call whose arguments arrive in parts.
type callParts struct {
	id, name  string
	arguments strings.Builder
}

func (p *chatParser) whole(d *document) {
	choices := d.get(root, "choices")
	if !p.head(d) && d.kind(choices) != kindList {
		p.r = *foreign(d)
	}
	for choice := range d.elements(choices) {
		if d.count(d.get(choice, "index")) == 0 {
			p.message = content{}
			p.message.addChatMessage(d, d.get(choice, "message"), RoleAssistant)
			p.reason = d.textAt(choice, "finish_reason")
		}
	}
}

func (p *chatParser) event(_ string, d *document) {
	p.head(d)
	for choice := range d.elements(d.get(root, "choices")) {
		if d.count(d.get(choice, "index")) == 0 {
			p.delta(d, d.get(choice, "delta"))
			d.setText(&p.reason, choice, "finish_reason")
		}
	}
}

// head reads the fields that responses and chunks share. It reports whether there is an error.
func (p *chatParser) head(d *document) bool {
	d.setText(&p.r.ID, root, "id")
	d.setText(&p.r.Model, root, "model")
	d.setCount(&p.r.Usage.InputTokens, root, "usage", "prompt_tokens")
	d.setCount(&p.r.Usage.CachedTokens, root, "usage", "prompt_tokens_details", "cached_tokens")
	d.setCount(&p.r.Usage.OutputTokens, root, "usage", "completion_tokens")
	message := failure(d, root)
	if message != "" {
		p.r.failed(message)
	}
	return message != ""
}

// delta adds the delta of a choice.
func (p *chatParser) delta(d *document, v int) {
	for _, text := range textContent(d, d.get(v, "content")).texts {
		p.text.WriteString(text)
	}
	p.refusal.WriteString(d.textAt(v, "refusal"))
	if call := d.get(v, "function_call"); d.kind(call) == kindObject {
		p.addCall(-1, ToolCall{Name: d.textAt(call, "name"), Arguments: d.textAt(call, "arguments")})
	}
	position := 0
	for call := range d.elements(d.get(v, "tool_calls")) {
		index := position
		d.setCount(&index, call, "index")
		p.addCall(index, chatCall(d, call))
		position++
	}
}

// addCall adds a part of the call at an index. Id and name come once. Some servers give all calls the index 0.
func (p *chatParser) addCall(index int, part ToolCall) {
	call := p.index[index]
	if call == nil || part.ID != "" && call.id != "" && part.ID != call.id {
		if p.index == nil {
			p.index = map[int]*callParts{}
		}
		call = &callParts{}
		p.index[index] = call
		p.calls = append(p.calls, call)
	}
	if part.ID != "" {
		call.id = part.ID
	}
	if part.Name != "" {
		call.name = part.Name
	}
	call.arguments.WriteString(part.Arguments)
}

func (p *chatParser) reply() *Reply {
	message := p.message
	message.addText(tagText, p.text.String())
	message.addText(tagRefusal, p.refusal.String())
	for _, call := range p.calls {
		message.addCall(ToolCall{ID: call.id, Name: call.name, Arguments: call.arguments.String()})
	}
	r := p.r
	r.Text, r.Calls = joinTexts(message.texts), message.calls
	if r.Finish == FinishNone {
		r.Finish = chatFinish(p.reason, &message)
	}
	return &r
}

// chatFinish returns the meaning of a finish_reason. It is "stop" also for a call that the request demanded by name.
func chatFinish(reason string, message *content) Finish {
	switch {
	case reason == "":
		return FinishNone
	case reason == "length":
		return FinishLength
	case reason == "content_filter" || message.refused:
		return FinishRefusal
	case reason == "tool_calls" || reason == "function_call" || len(message.calls) > 0:
		return FinishTools
	}
	return FinishStop
}
