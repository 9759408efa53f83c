package simulated

import (
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// conversation is the whole input of the model.
type conversation struct {
	schema string           // name of the requested JSON schema
	said   []worlds.Message // without tool calls
	bytes  int              // of all texts and calls
	seed   uint64
	drawn  []string // what the draws depend on: the schema, and the speaker, text and calls of each turn
}

// newConversation returns the conversation of a request. A turn without text gets its tool results as text.
func newConversation(r *Request, seed uint64) *conversation {
	c := &conversation{schema: r.SchemaName, drawn: []string{r.SchemaName}, seed: seed}
	for _, item := range r.Items {
		calls := ""
		if len(item.Calls) > 0 {
			calls = worlds.ReplyJSON(item.Calls)
		}
		if item.Text == "" {
			for _, result := range item.Results {
				item.Text += result.Output
			}
		}
		c.add(item.Role, item.Text, calls)
	}
	return c
}

// add adds a turn. The calls are its tool calls as JSON, or empty.
func (c *conversation) add(speaker, text, calls string) {
	c.said = append(c.said, worlds.Message{Speaker: speaker, Text: text})
	c.drawn = append(c.drawn, speaker, text, calls)
	c.bytes += len(text) + len(calls)
}

// draw returns a pseudo-random number: a hash of the prompt, the purpose and the seed. It does not depend on earlier or
// concurrent calls.
func (c *conversation) draw(purpose string) uint64 { return worlds.Draw(c.seed, purpose, c.drawn...) }

// chance returns true for a share of the prompts. The rate is from 0 to 1.
func (c *conversation) chance(purpose string, rate float64) bool {
	return worlds.Chance(rate, c.seed, purpose, c.drawn...)
}

// role returns the role that sent the prompt, or "". The role is the name of the schema. Without a known schema, it follows from the
// fields that the instructions mention.
func (c *conversation) role() string {
	switch c.schema {
	case "generator", "reflector", "curator", "reducer", "refiner":
		return c.schema
	}
	instructions := worlds.SystemText(c.said)
	switch {
	case strings.Contains(instructions, `"bullet_tags"`):
		return "reflector"
	case strings.Contains(instructions, `"decisions"`):
		return "reducer"
	case strings.Contains(instructions, `"operations"`) && strings.Contains(instructions, "tidy"):
		return "refiner"
	case strings.Contains(instructions, `"operations"`):
		return "curator"
	case strings.Contains(instructions, `"final_answer"`):
		return "generator"
	}
	return ""
}
