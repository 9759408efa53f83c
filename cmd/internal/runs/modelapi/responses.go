package modelapi

import (
	"cmp"
	"strings"
)

// responsesParser builds the reply of the responses API. The last event of a stream contains the whole response.
type responsesParser struct {
	partialReply
	// The content of a stream before its last event; see reply.
	items message         // the complete items
	text  strings.Builder // all text so far
}

func (p *responsesParser) whole(root Value) {
	if root.Text("status") == "" && root.Get("output").Kind() != '[' && failure(root) == "" { // not a response of this API
		p.r = unknownReply(root)
		return
	}
	p.addResponse(root, "completed")
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
		p.addResponse(response, strings.TrimPrefix(name, "response."))
	default:
		p.head(response)
	}
}

// addOutput adds an item of the output.
func (m *message) addOutput(v Value) {
	if !m.addItem(v) {
		m.addMessage(v)
	}
}

// addResponse reads a response object. The argument status is used if the object has no status.
func (p *responsesParser) addResponse(v Value, status string) {
	p.head(v)
	p.message = message{}
	for item := range v.Get("output").Elements() {
		p.message.addOutput(item)
	}
	status = cmp.Or(v.Text("status"), status)
	p.ended, p.reason = false, ""
	switch {
	case status == "failed", failure(v) != "":
		p.fail(v)
	case status == "completed", status == "done":
		p.ended = true
	case status == "incomplete":
		p.reason = cmp.Or(v.Text("incomplete_details", "reason"), "length")
	case status == "cancelled":
		p.r.fail("the response was cancelled")
	default: // queued, in_progress: a response in the background, which has no finish yet
		p.r.Error = "the response is " + status
	}
}

// fail reads an error, which is a member of the object or the object itself.
func (p *responsesParser) fail(v Value) {
	p.r.fail(cmp.Or(failure(v), v.Text("message"), v.Text("code"), "the response failed"))
}

// reply returns the reply. Without the content of a whole response, it uses the complete items, or else the text so far.
func (p *responsesParser) reply() *Reply {
	m := p.message
	if len(m.texts)+len(m.Calls) == 0 {
		m = p.items
	}
	if len(m.texts)+len(m.Calls) == 0 {
		m.addText(p.text.String())
	}
	return p.finish(&m)
}
