package wire

import "strings"

// conversation builds the items of a request, in order.
type conversation struct {
	doc     *document
	req     *Request
	system  []string // texts of the system prompt
	texts   []string // of the last item, which neighbours may extend
	started bool     // the system prompt is complete
	chain   Hash
	fields  []byte // reused by the contents of messages
	// systemPlace is where a text can be added to the system prompt.
	systemPlace place
}

// add adds a message. System messages in front of all others belong to the system prompt.
func (c *conversation) add(role Role, msg content, at place) {
	if role == RoleSystem && !c.started {
		c.addSystem(msg.texts)
		if at.ok() && c.req.API == Chat { // the other APIs have a field
			c.systemPlace = at
		}
		return
	}
	c.start()
	c.fields = msg.fields
	if len(msg.fields) > 0 || role == RoleUser {
		c.chain = extend(c.chain, role, msg.fields)
	}
	if !c.extends(role) {
		c.closeItem()
		c.req.Items = append(c.req.Items, Item{Role: role})
		c.req.places = append(c.req.places, place{})
	}
	last := len(c.req.Items) - 1
	item := &c.req.Items[last]
	item.Calls = append(item.Calls, msg.calls...)
	item.Results = append(item.Results, msg.results...)
	item.Prefix = c.chain
	c.texts = append(c.texts, msg.texts...)
	if role == RoleUser {
		c.req.places[last] = at
	}
}

// roleOf returns the role of a message. An unknown role counts as the assistant's, so that no text is inserted.
func roleOf(role string) Role {
	switch role {
	case "system", "developer":
		return RoleSystem
	case "user":
		return RoleUser
	case "tool", "function":
		return RoleTool
	}
	return RoleAssistant
}

// content returns an empty content. The next call of add ends its use.
func (c *conversation) content() content { return content{fields: c.fields[:0]} }

// extends reports whether a message of the role belongs to the last item.
func (c *conversation) extends(role Role) bool {
	n := len(c.req.Items)
	return n > 0 && c.req.Items[n-1].Role == role && (role == RoleAssistant || role == RoleTool)
}

// closeItem sets the text of the last item.
func (c *conversation) closeItem() {
	if n := len(c.req.Items); n > 0 {
		c.req.Items[n-1].Text = joinTexts(c.texts)
	}
	c.texts = nil
}

// start completes the system prompt.
func (c *conversation) start() {
	if c.started {
		return
	}
	c.started = true
	var fields []byte
	for _, text := range c.system {
		fields = appendField(fields, tagText, text)
	}
	c.req.System = joinTexts(c.system)
	c.req.Root = extend(Hash{}, Role(c.req.API), fields)
	c.chain = c.req.Root
}

// close completes the request.
func (c *conversation) close() {
	c.start()
	c.closeItem()
	c.req.systemPlace = c.systemPlace
}

// billingHeader starts a line of the system prompt of Claude Code. A value in it changes with each request, although the
// conversation does not change.
const billingHeader = "x-anthropic-billing-header:"

// addSystem adds texts to the system prompt.
func (c *conversation) addSystem(texts []string) {
	for _, text := range texts {
		if strings.HasPrefix(text, billingHeader) {
			_, text, _ = strings.Cut(text, "\n")
		}
		if text != "" {
			c.system = append(c.system, text)
		}
	}
}

// addSystemField adds a field with the system prompt: a string, a list of parts or nothing.
func (c *conversation) addSystemField(key string) {
	field := c.doc.get(root, key)
	c.addSystem(textContent(c.doc, field).texts)
	c.systemPlace = c.fieldPlace(field, key)
}

// textContent returns the content of a value that is a string or a list of parts.
func textContent(d *document, v int) content {
	var c content
	c.addParts(d, v)
	return c
}
