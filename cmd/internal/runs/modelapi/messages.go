package modelapi

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// messagesParser builds the reply of the Messages API.
type messagesParser struct {
	partialReply
	blocks []*block       // the content blocks of a stream, in order
	open   map[int]*block // the last block with each index: deltas with the index belong to it
}

// block is a content block of a stream.
type block struct {
	start     []byte          // the JSON of its first event
	text      strings.Builder // of the deltas
	arguments strings.Builder // of the deltas
}

func (p *messagesParser) whole(root Value) {
	if problem := failure(root); problem != "" {
		p.r.fail(problem)
		return
	}
	parts := root.Get("content")
	if parts.Kind() != '[' {
		p.r = unknownReply(root)
		return
	}
	p.head(root)
	p.message.addContent(parts)
	p.reason, p.ended = root.Text("stop_reason"), true
}

func (p *messagesParser) event(name string, root Value) {
	switch name {
	case "message_start":
		p.head(root.Get("message"))
	case "content_block_start":
		p.startBlock(root)
	case "content_block_delta":
		if b := p.open[root.Int("index")]; b != nil {
			b.text.WriteString(root.Text("delta", "text"))
			b.arguments.WriteString(root.Text("delta", "partial_json"))
		}
	case "message_delta":
		root.Get("delta").setText(&p.reason, "stop_reason")
		p.usage.add(root.Get("usage"))
	case "message_stop":
		p.ended = true
	case "error":
		p.r.fail(cmp.Or(failure(root), "the stream contains an error without a message"))
	}
}

// startBlock adds a block by its first event.
func (p *messagesParser) startBlock(root Value) {
	if p.open == nil {
		p.open = map[int]*block{}
	}
	b := &block{start: append([]byte{}, root.Get("content_block").Raw()...)}
	p.open[root.Int("index")] = b
	p.blocks = append(p.blocks, b)
}

// addBlock adds a block. The text of its deltas continues the text of its start. The arguments of its deltas replace those of its start.
func (m *message) addBlock(b *block) {
	v := ParseValue(b.start)
	if v.Text("type") == "text" {
		m.addText(v.Text("text") + b.text.String())
		return
	}
	before := len(m.Calls)
	m.addPart(v)
	isCall := len(m.Calls) > before
	if !isCall || b.arguments.Len() == 0 {
		return
	}
	arguments := jsontext.Value(b.arguments.String())
	if json.Valid(arguments) {
		_ = arguments.Compact(options)
	}
	m.Calls[before].Arguments = string(arguments)
}

func (p *messagesParser) reply() *Reply {
	m := p.message
	for _, b := range p.blocks {
		m.addBlock(b)
	}
	return p.finish(&m)
}
