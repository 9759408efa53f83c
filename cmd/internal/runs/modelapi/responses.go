package modelapi

import (
	"cmp"
	"strings"
)

// responsesParser builds the reply of the responses API. The last event of a stream contains the whole response.
type responsesParser struct {
	r      Reply
	usage  counts
	output message
	status string
	reason string // of an incomplete response
	// The events of a stream, for one whose last event is missing or has no output: its items, and the text of the others.
	items message
	text  strings.Builder
}

func (p *responsesParser) whole(root Value) {
	if root.Text("status") == "" && root.Get("output").Kind() != '[' && failure(root) == "" {
		p.r = foreign(root)
		return
	}
	p.response(root, "completed")
}

func (p *responsesParser) event(name string, root Value) {
	response := root.Get("response")
	switch name {
	case "error":
		p.fail(root)
	case "response.output_item.done":
		p.items.addOutput(root.Get("item"))
	case "response.output_text.delta":
		p.text.WriteString(root.Text("delta"))
	case "response.completed", "response.done", "response.incomplete", "response.failed", "response.cancelled":
		p.response(response, strings.TrimPrefix(name, "response."))
	default:
		response.setText(&p.r.ID, "id")
		response.setText(&p.r.Model, "model")
	}
}

func (p *responsesParser) end() { p.status = cmp.Or(p.status, "completed") }

// addOutput adds an item of the output.
func (m *message) addOutput(v Value) {
	if !m.addItem(v) {
		m.addMessage(v)
	}
}

// response reads a response object. The status is the one of an object without status.
func (p *responsesParser) response(v Value, status string) {
	v.setText(&p.r.ID, "id")
	v.setText(&p.r.Model, "model")
	p.usage.add(v.Get("usage"))
	p.reason = v.Text("incomplete_details", "reason")
	p.status = cmp.Or(v.Text("status"), status)
	p.output = message{}
	for item := range v.Get("output").Elements() {
		p.output.addOutput(item)
	}
	if p.status == "failed" || failure(v) != "" {
		p.fail(v)
	}
}

// fail reads an error: a member of the object, or the object itself.
func (p *responsesParser) fail(v Value) {
	p.r.fail(cmp.Or(failure(v), v.Text("message"), v.Text("code"), "the response failed"))
}

func (p *responsesParser) reply() *Reply {
	m := p.output
	if len(m.texts)+len(m.Calls) == 0 {
		m = p.items
	}
	if len(m.texts)+len(m.Calls) == 0 {
		m.addText(p.text.String())
	}
	r := p.r
	r.setContent(&m, p.usage.usage())
	if r.Finish != FinishNone {
		return &r
	}
	switch p.status {
	case "completed", "done":
		r.finish(&m, "")
	case "incomplete":
		r.finish(&m, cmp.Or(p.reason, "length"))
	case "cancelled":
		r.fail("the response was cancelled")
	case "":
	default: // queued, in_progress: a response in the background
		r.Error = "the response is " + p.status
	}
	return &r
}
