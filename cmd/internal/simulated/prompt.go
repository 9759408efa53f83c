package simulated

import (
	"encoding/json"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// conversation is the whole input of the model.
type conversation struct {
	schema   string // name of the requested JSON schema
	messages []message
	seed     uint64
}

type message struct {
	Speaker string          `json:"role"`
	Text    text            `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
}

// text is a message's content. On the wire it is a string or a list of parts; parts without text are ignored.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*t = text(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		*t += text(p.Text)
	}
	return nil
}

// said returns the messages without tool calls.
func (c *conversation) said() []world.Message {
	out := make([]world.Message, len(c.messages))
	for i, m := range c.messages {
		out[i] = world.Message{Speaker: m.Speaker, Text: string(m.Text)}
	}
	return out
}

// bytes returns the length of all messages.
func (c *conversation) bytes() int {
	n := 0
	for _, m := range c.messages {
		n += len(m.Text) + len(m.Calls)
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
		fields = append(fields, m.Speaker, string(m.Text), string(m.Calls))
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
