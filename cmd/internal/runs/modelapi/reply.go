package modelapi

import "cmp"

// partialReply collects the fields that the responses of all APIs have.
type partialReply struct {
	r       Reply
	usage   counts
	message message // of a response without a stream
	reason  string  // the provider's reason why the model stopped, or ""
	ended   bool    // the response is complete
}

// head reads the id, the model and the usage of a response or an event.
func (p *partialReply) head(v Value) {
	v.setText(&p.r.ID, "id")
	v.setText(&p.r.Model, "model")
	p.usage.add(v.Get("usage"))
}

// end records the end marker of a stream.
func (p *partialReply) end() { p.ended = true }

// finish returns the reply with a message.
func (p *partialReply) finish(m *message) *Reply {
	m.attachResults()
	r := p.r
	r.Text = joinTexts(m.texts)
	r.Calls = m.Calls
	r.Results = m.Results
	r.Usage = p.usage.usage()
	if p.reason != "" || p.ended {
		r.setFinish(m, p.reason)
	}
	return &r
}

// setFinish sets the finish of a complete response by the reason of the provider. For calls, the reason may also be "stop" or empty. A reply with
// an error keeps its finish.
func (r *Reply) setFinish(m *message, reason string) {
	if r.Finish != FinishNone {
		return
	}
	switch reason {
	case "length", "max_tokens", "max_output_tokens", "model_context_window_exceeded":
		r.Finish = FinishLength
	case "content_filter", "refusal":
		r.Finish = FinishRefusal
	case "tool_calls", "function_call", "tool_use":
		r.Finish = FinishTools
	default:
		r.Finish = FinishStop
		if len(ClientCalls(m.Calls)) > 0 {
			r.Finish = FinishTools
		}
	}
	if m.refused && r.Finish != FinishLength {
		r.Finish = FinishRefusal
	}
}

// fail marks a reply as failed.
func (r *Reply) fail(problem string) { r.Finish, r.Error = FinishFailed, problem }

// failure returns the message of the error in an object, in one of the shapes of model providers, and "" without an error.
func failure(v Value) string {
	switch e := v.Get("error"); e.Kind() {
	case '"':
		return e.Text()
	case '{':
		return cmp.Or(e.FirstText("message", "code", "type"), "the response contains an error without a message")
	}
	return ""
}

// unknownReply returns the reply for JSON that is not of a model API: an error of a proxy or server, or unknown JSON.
func unknownReply(root Value) Reply {
	if text := root.FirstText("message", "detail"); text != "" {
		return Reply{Finish: FinishFailed, Error: text}
	}
	return Reply{Error: "response is not of the API of the request"}
}

// counts are the numbers of tokens by the names of their fields.
type counts struct {
	prompt  int // all input tokens
	input   int // all input tokens; in the API of Anthropic those without read and written
	read    int // input tokens that the cache of Anthropic read
	written int // input tokens that the cache of Anthropic wrote
	cached  int // input tokens that another cache read
	output  int
}

// add reads a usage under the names of any API or recorder. Its counts replace earlier ones.
func (c *counts) add(v Value) {
	for key, member := range v.Members() {
		switch key.Text() {
		case "prompt_tokens", "promptTokens", "total_prompt_tokens", "tokens_sent":
			member.setCount(&c.prompt)
		case "input_tokens", "input":
			member.setCount(&c.input)
		case "cache_read_input_tokens":
			member.setCount(&c.read)
		case "cache_creation_input_tokens":
			member.setCount(&c.written)
		case "prompt_tokens_details", "input_tokens_details":
			member.Get("cached_tokens").setCount(&c.cached)
		case "cached_input_tokens", "cached_tokens", "total_cached_tokens", "cached":
			member.setCount(&c.cached)
		case "completion_tokens", "completionTokens", "total_completion_tokens", "output_tokens", "tokens_received", "output":
			member.setCount(&c.output)
		}
	}
}

// usage returns the usage with these counts.
func (c *counts) usage() Usage {
	return Usage{
		InputTokens: cmp.Or(c.prompt, c.input+c.read+c.written), CachedTokens: cmp.Or(c.cached, c.read), OutputTokens: c.output,
	}
}

// Usage returns the usage in an object, under the names of any API or recorder. It is zero for other values.
func (v Value) Usage() Usage {
	var c counts
	c.add(v)
	return c.usage()
}
