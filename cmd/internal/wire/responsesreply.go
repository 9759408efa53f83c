package wire

import "strings"

// responsesParser builds the reply of the responses API. The last event of a stream contains the whole response.
type responsesParser struct {
	r      Reply
	output content
	status string
	reason string  // of an incomplete response
	items  content // of the events of a stream, for a stream whose last event is missing or has no output
}

func (p *responsesParser) whole(d *document) {
	if d.textAt(root, "status") == "" && d.kind(d.get(root, "output")) != kindList && failure(d, root) == "" {
		p.r = *foreign(d)
		return
	}
	p.response(d, root, "completed")
}

func (p *responsesParser) event(name string, d *document) {
	if kind := d.textAt(root, "type"); kind != "" {
		name = kind
	}
	response := d.get(root, "response")
	switch name {
	case "error":
		p.fail(d, root)
	case "response.output_item.done":
		p.items.addItem(d, d.get(root, "item"))
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		p.response(d, response, strings.TrimPrefix(name, "response."))
	default:
		d.setText(&p.r.ID, response, "id")
		d.setText(&p.r.Model, response, "model")
	}
}

// response reads a response object. The status is the one of an object without status.
func (p *responsesParser) response(d *document, v int, status string) {
	d.setText(&p.r.ID, v, "id")
	d.setText(&p.r.Model, v, "model")
	d.setCount(&p.r.Usage.InputTokens, v, "usage", "input_tokens")
	d.setCount(&p.r.Usage.CachedTokens, v, "usage", "input_tokens_details", "cached_tokens")
	d.setCount(&p.r.Usage.OutputTokens, v, "usage", "output_tokens")
	p.reason = d.textAt(v, "incomplete_details", "reason")
	p.status, p.output = "", content{}
	if d.setText(&p.status, v, "status"); p.status == "" {
		p.status = status
	}
	for item := range d.elements(d.get(v, "output")) {
		p.output.addItem(d, item)
	}
	if p.status == "failed" || failure(d, v) != "" {
		p.fail(d, v)
	}
}

// fail reads an error: a member of the object, or the object itself.
func (p *responsesParser) fail(d *document, v int) {
	message := failure(d, v)
	for _, key := range []string{"message", "code"} {
		if message == "" {
			message = d.textAt(v, key)
		}
	}
	if message == "" {
		message = "the response failed"
	}
	p.r.failed(message)
}

func (p *responsesParser) reply() *Reply {
	output := &p.output
	if len(output.texts)+len(output.calls) == 0 {
		output = &p.items
	}
	r := p.r
	r.Text, r.Calls = joinTexts(output.texts), output.calls
	if r.Finish != FinishNone {
		return &r
	}
	switch p.status {
	case "completed":
		r.Finish = completed(output)
	case "incomplete":
		if r.Finish = FinishLength; p.reason == "content_filter" {
			r.Finish = FinishRefusal
		}
	case "cancelled":
		r.failed("the response was cancelled")
	case "":
	default: // queued, in_progress: a response in the background
		r.Error = "the response is " + p.status
	}
	return &r
}

// completed returns the finish of a response that has all its output.
func completed(output *content) Finish {
	switch {
	case output.refused:
		return FinishRefusal
	case len(output.calls) > 0:
		return FinishTools
	}
	return FinishStop
}
