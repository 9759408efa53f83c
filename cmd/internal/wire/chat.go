package wire

// addChat adds the messages of a chat completions request.
func (c *conversation) addChat() {
	d := c.doc
	list := d.get(root, "messages")
	c.systemPlace = c.newSystemMessage(list)
	for v := range d.elements(list) {
		role := roleOf(d.textAt(v, "role"))
		msg := c.content()
		msg.addChatMessage(d, v, role)
		c.add(role, msg, c.partPlace(d.get(v, "content"), "text"))
	}
}

// addChatMessage adds a message of a request or a response.
func (c *content) addChatMessage(d *document, v int, role Role) {
	c.addField(d, v, "name")
	if role == RoleTool {
		c.addResult(d, d.textAt(v, "tool_call_id"), d.get(v, "content"), false)
		return
	}
	c.addParts(d, d.get(v, "content"))
	c.addText(tagRefusal, d.textAt(v, "refusal"))
	c.addField(d, v, "audio")
	for call := range d.elements(d.get(v, "tool_calls")) {
		c.addCall(chatCall(d, call))
	}
	if call := d.get(v, "function_call"); d.kind(call) == kindObject {
		c.addCall(ToolCall{Name: d.textAt(call, "name"), Arguments: d.textAt(call, "arguments")})
	}
}

// chatCall returns an element of tool_calls. In a stream it is a part of a call.
func chatCall(d *document, v int) ToolCall {
	call := ToolCall{ID: d.textAt(v, "id")}
	if custom := d.get(v, "custom"); d.kind(custom) == kindObject {
		call.Name, call.Arguments = d.textAt(custom, "name"), d.textAt(custom, "input")
		return call
	}
	call.Name, call.Arguments = d.textAt(v, "function", "name"), d.textAt(v, "function", "arguments")
	return call
}
