package wire

// addMessages adds the messages of a request of the Messages API.
func (c *conversation) addMessages() {
	d := c.doc
	c.addSystemField("system")
	for v := range d.elements(d.get(root, "messages")) {
		parts := d.get(v, "content")
		role := roleOf(d.textAt(v, "role"))
		if role == RoleUser && hasResult(d, parts) {
			role = RoleTool
		}
		msg := c.content()
		msg.addParts(d, parts)
		c.add(role, msg, c.partPlace(parts, "text"))
	}
}
