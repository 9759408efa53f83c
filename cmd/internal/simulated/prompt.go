package simulated

import (
	"strings"

	"debrief/cmd/internal/simulated/wires"
	"debrief/cmd/internal/simulated/worlds/world"
)

// conversation is the whole input of the model.
type conversation struct {
	schema   string // name of the requested JSON schema
	messages []message
	seed     uint64
}

// message is a turn of the conversation. Tool calls are JSON, or empty.
type message struct{ speaker, text, calls string }

// newConversation returns the conversation of a request. A turn without text gets its tool results as text.
func newConversation(r *wires.Request, seed uint64) *conversation {
	c := &conversation{schema: r.SchemaName, seed: seed}
	for _, item := range r.Items {
		m := message{speaker: item.Role, text: item.Text}
		if len(item.Calls) > 0 {
			m.calls = world.ReplyJSON(item.Calls)
		}
		if m.text == "" {
			for _, result := range item.Results {
				m.text += result.Output
			}
		}
		c.messages = append(c.messages, m)
	}
	return c
}

// said returns the messages without tool calls.
func (c *conversation) said() []world.Message {
	out := make([]world.Message, len(c.messages))
	for i, m := range c.messages {
		out[i] = world.Message{Speaker: m.speaker, Text: m.text}
	}
	return out
}

// bytes returns the length of all messages.
func (c *conversation) bytes() int {
	n := 0
	for _, m := range c.messages {
		n += len(m.text) + len(m.calls)
	}
	return n
}

// draw returns a pseudo-random number: a hash of the prompt, the purpose and the seed. It does not depend on earlier or
// concurrent calls.
func (c *conversation) draw(purpose string) uint64 { return world.Draw(c.seed, purpose, c.fields()...) }

// chance returns true for a share of the prompts, 0 to 1.
func (c *conversation) chance(purpose string, rate float64) bool {
	return world.Chance(rate, c.seed, purpose, c.fields()...)
}

func (c *conversation) fields() []string {
	fields := []string{c.schema}
	for _, m := range c.messages {
		fields = append(fields, m.speaker, m.text, m.calls)
	}
	return fields
}

// role returns the role that sent the prompt, or "". The role is the name of the schema. Without a known schema, it follows from the
// fields that the instructions mention.
func (c *conversation) role() string {
	switch c.schema {
	case "generator", "reflector", "curator", "reducer", "refiner", "summary":
		return c.schema
	}
	instructions := world.SystemText(c.said())
	switch {
	case strings.Contains(instructions, `"bullet_tags"`):
		return "reflector"
	case strings.Contains(instructions, `"decisions"`):
		return "reducer"
	case strings.Contains(instructions, `"operations"`) && strings.Contains(instructions, "tidy"):
		return "refiner"
	case strings.Contains(instructions, `"operations"`):
		return "curator"
	case strings.Contains(instructions, `"summary"`):
		return "summary"
	case strings.Contains(instructions, `"final_answer"`):
		return "generator"
	}
	return ""
}
