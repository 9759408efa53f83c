package modelapi

import "cmp"

// counts are the numbers of tokens in the names of OpenAI and of Anthropic. Input of Anthropic does not contain the tokens that
// its cache read and wrote.
type counts struct{ prompt, input, read, written, cached, output int }

// add reads a usage, whose counts replace earlier ones.
func (c *counts) add(v Value) {
	v.setCount(&c.prompt, "prompt_tokens")
	v.setCount(&c.input, "input_tokens")
	v.setCount(&c.read, "cache_read_input_tokens")
	v.setCount(&c.written, "cache_creation_input_tokens")
	v.setCount(&c.cached, "prompt_tokens_details", "cached_tokens")
	v.setCount(&c.cached, "input_tokens_details", "cached_tokens")
	v.setCount(&c.cached, "cached_input_tokens") // of Codex
	v.setCount(&c.output, "completion_tokens")
	v.setCount(&c.output, "output_tokens")
}

func (c *counts) usage() Usage {
	return Usage{
		InputTokens: cmp.Or(c.prompt, c.input+c.read+c.written), CachedTokens: cmp.Or(c.cached, c.read), OutputTokens: c.output,
	}
}

// Usage returns the usage in an object, in the names of any API. It is zero for other values.
func (v Value) Usage() Usage {
	var c counts
	c.add(v)
	return c.usage()
}
