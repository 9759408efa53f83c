package wire

import "strings"

// content collects the parts of one message: its texts, calls and results, and the fields that its hash covers.
type content struct {
	texts   []string
	calls   []ToolCall
	results []ToolResult
	fields  []byte
	refused bool // a part is a refusal of the model
}

// joinTexts joins the texts of parts as Item.Text has them.
func joinTexts(texts []string) string { return strings.Join(texts, "\n\n") }

// addText adds a text. An empty one changes nothing, because APIs write a message without text in several ways.
func (c *content) addText(tag byte, text string) {
	if text != "" {
		c.refused = c.refused || tag == tagRefusal
		c.texts = append(c.texts, text)
		c.fields = appendField(c.fields, tag, text)
	}
}

// addField adds a member of a message to the hash, if it is set.
func (c *content) addField(d *document, v int, key string) {
	if value := d.get(v, key); d.kind(value) != kindNull {
		c.fields = d.appendJSON(appendField(c.fields, tagField, key), value, false)
	}
}

// addCall adds a call whose arguments are a text.
func (c *content) addCall(call ToolCall) {
	c.calls = append(c.calls, call)
	c.fields = appendField(appendField(appendField(c.fields, tagCall, call.ID), tagCall, call.Name), tagCall, call.Arguments)
}

// addObjectCall adds a call whose arguments are a JSON value.
func (c *content) addObjectCall(d *document, id, name string, input int) {
	c.calls = append(c.calls, ToolCall{ID: id, Name: name, Arguments: d.compact(input)})
	c.fields = appendField(appendField(c.fields, tagCall, id), tagCall, name)
	c.fields = d.appendJSON(c.fields, input, true)
}

// addResult adds a result. Output is a string, a list of parts or another JSON value.
func (c *content) addResult(d *document, callID string, output int, failed bool) {
	c.fields = appendField(c.fields, tagResult, callID)
	if failed {
		c.fields = append(c.fields, tagError)
	}
	inner := content{fields: c.fields}
	inner.addParts(d, output)
	c.fields = append(inner.fields, tagEnd)
	c.results = append(c.results, ToolResult{CallID: callID, Output: joinTexts(inner.texts), Failed: failed})
}

// addParts adds the content of a message or result: a string, a list of parts, a part, or null.
func (c *content) addParts(d *document, v int) {
	if d.kind(v) != kindList {
		c.addPart(d, v)
		return
	}
	for part := range d.elements(v) {
		c.addPart(d, part)
	}
}

// addPart adds one part. The names of types are disjoint in the three APIs.
func (c *content) addPart(d *document, v int) {
	switch d.kind(v) {
	case kindNull:
		return
	case kindString:
		c.addText(tagText, d.text(v))
		return
	}
	switch d.textAt(v, "type") {
	case "text", "input_text", "output_text":
		c.addText(tagText, d.textAt(v, "text"))
	case "refusal":
		c.addText(tagRefusal, d.textAt(v, "refusal"))
	case "thinking", "redacted_thinking":
	case "tool_use":
		c.addObjectCall(d, d.textAt(v, "id"), d.textAt(v, "name"), d.get(v, "input"))
	case "tool_result":
		c.addResult(d, d.textAt(v, "tool_use_id"), d.get(v, "content"), d.isTrue(d.get(v, "is_error")))
	default:
		c.addOther(d, v)
	}
}

// addOther adds a part of another type to the hash, such as an image, and the output of a shell to the texts.
func (c *content) addOther(d *document, v int) {
	c.fields = d.appendJSON(append(c.fields, tagOther), v, false)
	for _, key := range []string{"stdout", "stderr"} {
		if text := d.textAt(v, key); text != "" {
			c.texts = append(c.texts, text)
		}
	}
}

// hasResult reports whether a list of parts contains the result of a tool.
func hasResult(d *document, parts int) bool {
	for part := range d.elements(parts) {
		if d.textAt(part, "type") == "tool_result" {
			return true
		}
	}
	return false
}
