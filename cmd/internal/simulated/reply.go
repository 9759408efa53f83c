package simulated

import (
	"encoding/json"
	"fmt"
)

// created is the time of all responses, in seconds.
const created = 1_790_000_000

// reply is an answer that becomes a response of an API.
type reply struct {
	Answer
	request *Request
}

func (a *reply) id(prefix string) string { return prefix + a.ID }

// callID returns the id of the tool call with an index.
func (a *reply) callID(prefix string, i int) string {
	return fmt.Sprintf("%s_%d", a.id(prefix), i)
}

// Chat completions.

func (a *reply) chatUsage() object {
	return object{
		"prompt_tokens": a.Usage.Input, "completion_tokens": a.Usage.Output, "total_tokens": a.Usage.Input + a.Usage.Output,
		"prompt_tokens_details": object{"cached_tokens": a.Usage.Cached}, "completion_tokens_details": object{"reasoning_tokens": 0},
	}
}

func (a *reply) finishReason() string {
	switch {
	case len(a.Calls) > 0:
		return "tool_calls"
	case a.Length:
		return "length"
	}
	return "stop"
}

func (a *reply) chat() object {
	message := object{"role": "assistant", "content": a.Text, "refusal": nil}
	if a.Refusal != "" {
		message["content"], message["refusal"] = nil, a.Refusal
	}
	var calls []object
	for i, c := range a.Calls {
		calls = append(calls, object{"id": a.callID("call_", i), "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return object{
		"id": a.id("chatcmpl-"), "object": "chat.completion", "created": created, "model": a.Model, "usage": a.chatUsage(), "system_fingerprint": a.Fingerprint,
		"choices": []object{{"index": 0, "message": message, "finish_reason": a.finishReason(), "logprobs": nil}},
	}
}

func (a *reply) chatEvents() []event {
	var all []event
	chunk := func(choices []object, usage any) {
		all = append(all, event{"", object{
			"id": a.id("chatcmpl-"), "object": "chat.completion.chunk", "created": created, "model": a.Model, "system_fingerprint": a.Fingerprint,
			"choices": choices, "usage": usage,
		}})
	}
	delta := func(d object, finish any) { chunk([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil) }
	delta(object{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(a.Text) {
		delta(object{"content": p}, nil)
	}
	if a.Refusal != "" {
		delta(object{"refusal": a.Refusal}, nil)
	}
	for i, c := range a.Calls {
		delta(object{"tool_calls": []object{{"index": i, "id": a.callID("call_", i), "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
	}
	for i, c := range a.Calls {
		for _, p := range pieces(c.Arguments) {
			delta(object{"tool_calls": []object{{"index": i, "function": object{"arguments": p}}}}, nil)
		}
	}
	delta(object{}, a.finishReason())
	if a.request.usage {
		chunk([]object{}, a.chatUsage())
	}
	return append(all, event{"", "[DONE]"})
}

// Messages.

func (a *reply) stopReason() string {
	switch {
	case a.Refusal != "":
		return "refusal"
	case len(a.Calls) > 0:
		return "tool_use"
	case a.Length:
		return "max_tokens"
	}
	return "end_turn"
}

func (a *reply) messageUsage() object {
	return object{
		"input_tokens": a.Usage.Input - a.Usage.Cached, "cache_read_input_tokens": a.Usage.Cached,
		"cache_creation_input_tokens": 0, "output_tokens": a.Usage.Output,
	}
}

// blocks returns the content blocks of a message.
func (a *reply) blocks() []object {
	all := []object{}
	if text := a.Text + a.Refusal; text != "" {
		all = append(all, object{"type": "text", "text": text})
	}
	for i, c := range a.Calls {
		all = append(all, object{"type": "tool_use", "id": a.callID("toolu_", i), "name": c.Name, "input": json.RawMessage(c.Arguments)})
	}
	return all
}

func (a *reply) message() object {
	return object{
		"id": a.id("msg_"), "type": "message", "role": "assistant", "model": a.Model, "content": a.blocks(),
		"stop_reason": a.stopReason(), "stop_sequence": nil, "usage": a.messageUsage(),
	}
}

func (a *reply) messageEvents() []event {
	var all []event
	add := func(kind string, data object) {
		data["type"] = kind
		all = append(all, event{kind, data})
	}
	start := a.message()
	start["content"], start["stop_reason"] = []object{}, nil
	add("message_start", object{"message": start})
	if a.Ping {
		add("ping", object{})
	}
	for i, b := range a.blocks() {
		var deltas []object
		if b["type"] == "text" {
			for _, p := range pieces(b["text"].(string)) {
				deltas = append(deltas, object{"type": "text_delta", "text": p})
			}
			b["text"] = ""
		} else {
			for _, p := range pieces(string(b["input"].(json.RawMessage))) {
				deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
			}
			b["input"] = object{}
		}
		add("content_block_start", object{"index": i, "content_block": b}) // the block without its content
		for _, d := range deltas {
			add("content_block_delta", object{"index": i, "delta": d})
		}
		add("content_block_stop", object{"index": i})
	}
	add("message_delta", object{"delta": object{"stop_reason": a.stopReason(), "stop_sequence": nil}, "usage": object{"output_tokens": a.Usage.Output}})
	add("message_stop", object{})
	return all
}
