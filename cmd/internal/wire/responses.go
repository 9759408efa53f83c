package wire

import "strings"

// addResponses adds the items of a responses request.
func (c *conversation) addResponses() {
	d := c.doc
	c.req.PreviousID = d.textAt(root, "previous_response_id")
	if c.req.Conversation = d.textAt(root, "conversation"); c.req.Conversation == "" {
		c.req.Conversation = d.textAt(root, "conversation", "id")
	}
	c.addSystemField("instructions")
	input := d.get(root, "input")
	if d.kind(input) == kindString {
		c.add(RoleUser, textContent(d, input), c.partPlace(input, "input_text"))
	}
	for v := range d.elements(input) {
		item := c.content()
		role := item.addItem(d, v)
		c.add(role, item, c.partPlace(d.get(v, "content"), "input_text"))
	}
}

// addItem adds an item of a request or a response, and returns its role.
func (c *content) addItem(d *document, v int) Role {
	switch kind := d.textAt(v, "type"); kind {
	case "", "message":
		c.addParts(d, d.get(v, "content"))
		return roleOf(d.textAt(v, "role"))
	case "reasoning": // covered by no hash, as thoughts in other APIs
		return RoleAssistant
	case "function_call":
		c.addCall(ToolCall{ID: d.textAt(v, "call_id"), Name: d.textAt(v, "name"), Arguments: d.textAt(v, "arguments")})
		return RoleAssistant
	case "custom_tool_call":
		c.addCall(ToolCall{ID: d.textAt(v, "call_id"), Name: d.textAt(v, "name"), Arguments: d.textAt(v, "input")})
		return RoleAssistant
	default:
		return c.addBuiltIn(d, v, kind)
	}
}

// addBuiltIn adds an item of a tool that the API defines. A client runs those that have a call id, such as a shell. Items
// with an output or response come from the client, and all others from the model.
func (c *content) addBuiltIn(d *document, v int, kind string) Role {
	if strings.HasSuffix(kind, "_output") {
		c.addResult(d, d.textAt(v, "call_id"), d.get(v, "output"), false)
		return RoleTool
	}
	if strings.HasSuffix(kind, "_response") {
		c.addOther(d, v)
		return RoleTool
	}
	name, isCall := strings.CutSuffix(kind, "_call")
	if id := d.textAt(v, "call_id"); isCall && id != "" {
		input := d.get(v, "action")
		if input == missing {
			input = d.get(v, "operation")
		}
		c.addObjectCall(d, id, name, input)
		return RoleAssistant
	}
	c.addOther(d, v)
	return RoleAssistant
}
