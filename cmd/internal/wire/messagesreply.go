package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// messagesParser builds the reply of the Messages API.
type messagesParser struct {
	r       Reply
	message content // of a response without a stream
	reason  string
	ended   bool
	usage   messagesUsage
	// The content blocks of a stream.
	blocks []*block
	index  map[int]*block
}

// messagesUsage has the input tokens that were not in the cache, were read from it, and were written to it.
type messagesUsage struct{ input, read, written, output int }

// block is a content block of a stream.
type block struct {
	kind, id, name string
	text           strings.Builder
	input          string // of a call that no delta follows
	arguments      strings.Builder
}

func (p *messagesParser) whole(d *document) {
	if message := failure(d, root); message != "" {
		p.r.failed(message)
		return
	}
	parts := d.get(root, "content")
	if d.kind(parts) != kindList {
		p.r = *foreign(d)
		return
	}
	p.head(d, root)
	p.message.addParts(d, parts)
	p.reason, p.ended = d.textAt(root, "stop_reason"), true
}

// head reads a message object without its content.
func (p *messagesParser) head(d *document, v int) {
	d.setText(&p.r.ID, v, "id")
	d.setText(&p.r.Model, v, "model")
	p.addUsage(d, d.get(v, "usage"))
}

// addUsage reads a usage, whose counts replace earlier ones.
func (p *messagesParser) addUsage(d *document, v int) {
	d.setCount(&p.usage.input, v, "input_tokens")
	d.setCount(&p.usage.read, v, "cache_read_input_tokens")
	d.setCount(&p.usage.written, v, "cache_creation_input_tokens")
	d.setCount(&p.usage.output, v, "output_tokens")
}

func (p *messagesParser) event(name string, d *document) {
	if kind := d.textAt(root, "type"); kind != "" {
		name = kind
	}
	switch name {
	case "message_start":
		p.head(d, d.get(root, "message"))
	case "content_block_start":
		p.startBlock(d, d.get(root, "content_block"))
	case "content_block_delta":
		if b := p.index[d.count(d.get(root, "index"))]; b != nil {
			b.text.WriteString(d.textAt(root, "delta", "text"))
			b.arguments.WriteString(d.textAt(root, "delta", "partial_json"))
		}
	case "message_delta":
		d.setText(&p.reason, d.get(root, "delta"), "stop_reason")
		p.addUsage(d, d.get(root, "usage"))
	case "message_stop":
		p.ended = true
	case "error":
		p.fail(d)
	}
}

func (p *messagesParser) fail(d *document) {
	message := failure(d, root)
	if message == "" {
		message = "the stream contains an error without a message"
	}
	p.r.failed(message)
}

func (p *messagesParser) startBlock(d *document, v int) {
	b := &block{kind: d.textAt(v, "type"), id: d.textAt(v, "id"), name: d.textAt(v, "name"), input: d.compact(d.get(v, "input"))}
	b.text.WriteString(d.textAt(v, "text"))
	if p.index == nil {
		p.index = map[int]*block{}
	}
	p.index[d.count(d.get(root, "index"))] = b
	p.blocks = append(p.blocks, b)
}

// call returns the call of a tool_use block, whose arguments are JSON without spaces.
func (b *block) call() ToolCall {
	call := ToolCall{ID: b.id, Name: b.name, Arguments: b.input}
	if b.arguments.Len() > 0 {
		call.Arguments = b.arguments.String()
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(call.Arguments)) == nil {
			call.Arguments = compact.String()
		}
	}
	return call
}

func (p *messagesParser) reply() *Reply {
	message := p.message
	for _, b := range p.blocks {
		switch b.kind {
		case "text":
			message.addText(tagText, b.text.String())
		case "tool_use":
			message.addCall(b.call())
		}
	}
	r := p.r
	r.Text, r.Calls = joinTexts(message.texts), message.calls
	r.Usage = Usage{InputTokens: p.usage.input + p.usage.read + p.usage.written, CachedTokens: p.usage.read, OutputTokens: p.usage.output}
	if p.ended && r.Finish == FinishNone {
		r.Finish = messagesFinish(p.reason)
	}
	return &r
}

// messagesFinish returns the meaning of a stop_reason. After pause_turn the client sends the conversation again, without a result.
func messagesFinish(reason string) Finish {
	switch reason {
	case "":
		return FinishNone
	case "tool_use":
		return FinishTools
	case "max_tokens", "model_context_window_exceeded":
		return FinishLength
	case "refusal":
		return FinishRefusal
	}
	return FinishStop
}
