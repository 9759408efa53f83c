package openai

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/sashabaranov/go-openai"

	"debrief/events/chat"
)

// part is a part of requests that some servers and models refuse.
type part int

// The parts, in the order in which a refusal is compared with them.
const (
	responseFormat part = iota
	maxTokens
	temperature
	systemRole
)

// parts has the facts about each part: words of the refusals, and whether a request has it. How models vary the names of fields
// in replies is in the table of package chat.
var parts = [...]struct {
	words []string
	in    func(req *openai.ChatCompletionRequest, messages []chat.Message) bool
}{
	responseFormat: {
		[]string{"response_format", "json_schema", "json schema", "structured output", "grammar"},
		func(req *openai.ChatCompletionRequest, _ []chat.Message) bool { return req.ResponseFormat != nil },
	},
	maxTokens: { // without it, max_completion_tokens is sent, which the refusal recommends
		[]string{"max_completion_tokens"},
		func(req *openai.ChatCompletionRequest, _ []chat.Message) bool { return req.MaxTokens > 0 },
	},
	temperature: {
		[]string{"temperature"},
		func(req *openai.ChatCompletionRequest, _ []chat.Message) bool { return req.Temperature != 0 },
	},
	systemRole: { // refused by chat templates of models such as Gemma and Mistral; without it, the instructions are in the user's message
		[]string{
			"system role", "role system", "role: system", "'system'", `"system"`, "`system`", "system message", "system prompt", "system instruction",
			"developer instruction", "must alternate", "roles are supported", "unsupported role", "invalid role", "unknown role", "unexpected role",
			`"role"]`, "'user' or 'assistant'", "'user', 'assistant'", "user and assistant", // of validators that list the roles they know
		},
		func(_ *openai.ChatCompletionRequest, messages []chat.Message) bool {
			return len(messages) > 0 && messages[0].Speaker == chat.System
		},
	},
}

// dialect has the parts of requests that a model does not support. The client learns them from refusals and remembers them for its life.
// After a refusal the request is sent again without the refused part.
type dialect struct{ missing [len(parts)]atomic.Bool }

// lacks reports whether the model does not support a part.
func (d *dialect) lacks(p part) bool { return d.missing[p].Load() }

// adapt records the part of a request that a refusal is about. It reports whether there is such a part.
func (d *dialect) adapt(e *Error, body errorBody, req *openai.ChatCompletionRequest, messages []chat.Message) bool {
	for p := range parts {
		isTemplateError := part(p) == systemRole && e.Status == http.StatusInternalServerError
		isRefusal := e.kind == refused || isTemplateError
		if isRefusal && parts[p].in(req, messages) && body.mentions(parts[p].words...) {
			d.missing[p].Store(true)
			return true
		}
	}
	return false
}

// messages returns messages in the dialect. Without a system role, the instructions precede the text of the first message of the user.
func (d *dialect) messages(all []chat.Message) []chat.Message {
	if !d.lacks(systemRole) {
		return all
	}
	var instructions []string
	var others []chat.Message
	for _, m := range all {
		if m.Speaker == chat.System {
			instructions = append(instructions, m.Text)
		} else {
			others = append(others, m)
		}
	}
	text := strings.Join(instructions, "\n\n")
	if len(others) == 0 || others[0].Speaker != chat.User {
		return append([]chat.Message{{Speaker: chat.User, Text: text}}, others...)
	}
	others[0].Text = text + "\n\n" + others[0].Text
	return others
}
