package simulated

import "maps"

// status is the status of a finished response.
func (a *reply) status() string {
	if a.Length {
		return "incomplete"
	}
	return "completed"
}

// outputItems returns the finished output items.
func (a *reply) outputItems() []object {
	all := []object{}
	if text := a.Text + a.Refusal; text != "" {
		all = append(all, object{
			"type": "message", "id": a.id("msg_"), "role": "assistant", "status": "completed", "content": []object{a.contentPart(text)},
		})
	}
	for i, c := range a.Calls {
		all = append(all, object{
			"type": "function_call", "id": a.callID("fc_", i), "call_id": a.callID("call_", i), "status": "completed",
			"name": c.Name, "arguments": c.Arguments,
		})
	}
	return all
}

// contentPart returns the content of the message: the text as an answer, or as a refusal.
func (a *reply) contentPart(text string) object {
	if a.Refusal != "" {
		return object{"type": "refusal", "refusal": text}
	}
	return object{"type": "output_text", "text": text, "annotations": []object{}}
}

// response returns the response with a status. Only a finished response has output and usage.
func (a *reply) response(status string) object {
	r := object{
		"id": a.id("resp_"), "object": "response", "created_at": created, "status": status, "model": a.Model,
		"output": []object{}, "usage": nil, "error": nil, "incomplete_details": nil, "parallel_tool_calls": true, "tools": []object{},
	}
	if status == "in_progress" {
		return r
	}
	r["output"] = a.outputItems()
	if a.Length {
		r["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	r["usage"] = object{
		"input_tokens": a.Usage.Input, "input_tokens_details": object{"cached_tokens": a.Usage.Cached},
		"output_tokens": a.Usage.Output, "output_tokens_details": object{"reasoning_tokens": 0},
		"total_tokens": a.Usage.Input + a.Usage.Output,
	}
	return r
}

func (a *reply) responseEvents() []event {
	var all []event
	add := func(kind string, data object) {
		data["type"], data["sequence_number"] = kind, len(all)
		all = append(all, event{kind, data})
	}
	add("response.created", object{"response": a.response("in_progress")})
	add("response.in_progress", object{"response": a.response("in_progress")})
	for i, item := range a.outputItems() {
		a.itemEvents(i, item, add)
	}
	add("response."+a.status(), object{"response": a.response(a.status())})
	return all
}

// itemEvents adds the events of one output item.
func (a *reply) itemEvents(i int, item object, add func(string, object)) {
	ofItem := func(fields object) object {
		fields["output_index"], fields["item_id"] = i, item["id"]
		return fields
	}
	started := maps.Clone(item) // the item as it is before its first delta
	started["status"] = "in_progress"
	if item["type"] == "function_call" {
		arguments := item["arguments"].(string)
		started["arguments"] = ""
		add("response.output_item.added", ofItem(object{"item": started}))
		for _, p := range pieces(arguments) {
			add("response.function_call_arguments.delta", ofItem(object{"delta": p}))
		}
		add("response.function_call_arguments.done", ofItem(object{"arguments": arguments, "name": item["name"]}))
		add("response.output_item.done", ofItem(object{"item": item}))
		return
	}
	started["content"] = []object{}
	add("response.output_item.added", ofItem(object{"item": started}))
	text := a.Text + a.Refusal
	kind := "response.output_text"
	field := "text"
	if a.Refusal != "" {
		kind, field = "response.refusal", "refusal"
	}
	add("response.content_part.added", ofItem(object{"content_index": 0, "part": a.contentPart("")}))
	for _, p := range pieces(text) {
		add(kind+".delta", ofItem(object{"content_index": 0, "delta": p}))
	}
	add(kind+".done", ofItem(object{"content_index": 0, field: text}))
	add("response.content_part.done", ofItem(object{"content_index": 0, "part": a.contentPart(text)}))
	add("response.output_item.done", ofItem(object{"item": item}))
}
