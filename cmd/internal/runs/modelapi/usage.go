package modelapi

import "cmp"

// counts are the numbers of tokens under their different names.
type counts struct {
	prompt        int // all input tokens
	input         int // all input tokens, except for Anthropic: there it does not contain read and written
	read, written int // input tokens that the cache of Anthropic read and wrote
	cached        int // input tokens that another cache read
	output        int
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
