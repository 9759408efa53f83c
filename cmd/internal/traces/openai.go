package traces

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
	"debrief/events"
)

// chatLog is a recorded conversation of OpenAI's chat API: an example for fine-tuning, or a request with its response. It may
// have an outcome.
type chatLog struct {
	ID       json.RawMessage   `json:"id"`
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Choices  []choice          `json:"choices"`
	Usage    modelapi.Usage    `json:"usage"`
	steps.RecordedOutcome
	Metadata json.RawMessage `json:"metadata"`

	Request struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
	} `json:"request"`
	Response struct {
		ID      json.RawMessage `json:"id"`
		Model   string          `json:"model"`
		Choices []choice        `json:"choices"`
		Usage   modelapi.Usage  `json:"usage"`
		Content json.RawMessage `json:"content"` // of Anthropic
	} `json:"response"`
}

type choice struct {
	Message json.RawMessage `json:"message"`
}

// parse sets the fields of a log. Most logs have only fields that need no decoder of structures; the others take the way of package
// json, which also finds the errors.
func (l *chatLog) parse(o *source.Object) error {
	if source.Valid(o.Raw) && l.set(o) {
		return nil
	}
	*l = chatLog{}
	return source.Decode(o.Raw, l)
}

// set sets the fields of a log. It returns false if a field is unusual.
func (l *chatLog) set(o *source.Object) (ok bool) {
	for _, f := range o.Fields {
		switch f.Name {
		case "id":
			l.ID = f.Value
		case "messages":
			if l.Messages, ok = source.Elements(f.Value); !ok {
				return false
			}
		case "outcome":
			l.Outcome = f.Value
		case "reward":
			l.Reward = f.Value
		case "score":
			l.Score = f.Value
		case "metadata":
			l.Metadata = f.Value
		case "task_id", "tools", "created", "object": // of no use here
		default:
			return false
		}
	}
	return true
}

// chatObject parses an object with the messages of a run.
func chatObject(o *source.Object) (*steps.Run, error) {
	var l chatLog
	if err := l.parse(o); err != nil {
		return nil, err
	}
	field := "messages"
	if len(l.Messages) == 0 {
		field, l.Messages = "request.messages", l.Request.Messages
	}
	c := steps.Conversation{}
	if slices.ContainsFunc(source.Objects(l.Messages), isOtherDialect) {
		for _, m := range l.Messages {
			c.AddItems(modelapi.Find(m, ""))
		}
	} else if err := c.AddMessages(field, l.Messages); err != nil {
		return nil, err
	}
	if err := l.addReply(&c); err != nil {
		return nil, err
	}
	c.TextActions()
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	var about struct {
		ID json.RawMessage `json:"id"`
		steps.RecordedOutcome
	}
	_ = json.Unmarshal(l.Metadata, &about) // metadata has no fixed form
	if r.Outcome, err = l.ParseOutcome(sourceOpenAIChat); err != nil {
		return nil, err
	}
	if other, err := about.ParseOutcome(sourceOpenAIChat); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	} else if !r.Outcome.Known() && other.Known() {
		r.Outcome = other
	}
	for _, id := range []json.RawMessage{l.ID, about.ID, l.Response.ID} {
		if r.Name, err = source.ParseID("id", id); err == nil {
			break
		}
	}
	r.Model = cmp.Or(l.Response.Model, l.Model, l.Request.Model)
	r.Usage = steps.Tokens(l.Usage).Add(steps.Tokens(l.Response.Usage))
	return r, nil
}

// addReply adds the reply in a log. The conversation continued with the first choice. The reply of Anthropic's API has its
// content in the response itself.
func (l *chatLog) addReply(c *steps.Conversation) error {
	for _, choices := range [][]choice{l.Response.Choices, l.Choices} {
		if len(choices) > 0 && choices[0].Message != nil {
			return c.AddMessages("choices", []json.RawMessage{choices[0].Message})
		}
	}
	if len(l.Response.Content) > 0 {
		reply := modelapi.ParseContent(modelapi.RoleAssistant, l.Response.Content)
		c.AddItem(&reply, events.Step{})
	}
	return nil
}

// isOtherDialect reports whether a message has calls, results or parts in another form than OpenAI's chat API: blocks of
// Anthropic, parts of Gemini or the Vercel AI SDK, or messages of LangChain.
func isOtherDialect(o *source.Object) bool {
	if o.Text("role") == "" && (modelapi.RoleOf(o.Text("type")) != "" || o.Has("kwargs")) || o.Has("parts") {
		return true
	}
	for _, raw := range source.AsList(o.Get("content")) {
		p := source.AsObject(raw)
		if p == nil {
			continue
		}
		switch kind := p.Text("type"); kind {
		case "thinking", "redacted_thinking", "tool-call", "tool-result", "reasoning", "tool_call", "tool_call_response":
			return true
		default:
			if strings.HasSuffix(kind, "tool_use") || strings.HasSuffix(kind, "tool_result") {
				return true
			}
		}
	}
	return false
}

// isChatMessage reports whether an object is a message, or an item of the Responses API. A list of items has messages, too.
func isChatMessage(o *source.Object) bool {
	return o.Text("role") != "" || isItem(o)
}

// isItem reports whether an object is an item of the Responses API other than a message.
func isItem(o *source.Object) bool {
	_, ok := modelapi.FindItem(o.Raw)
	return ok
}

// chatMessages builds a run from objects that are single messages or items.
type chatMessages struct{ steps.Conversation }

func (c *chatMessages) Add(o *source.Object) error {
	if isOtherDialect(o) || isItem(o) {
		c.AddItems(modelapi.Find(o.Raw, ""))
		return nil
	}
	m, err := modelapi.ParseMessage(o.Raw)
	if err != nil {
		return err
	}
	c.AddItem(&m, events.Step{})
	return nil
}

func (c *chatMessages) End() ([]*steps.Run, error) {
	c.TextActions()
	c.Question = miniTask(c.Question)
	return asRuns(c.Run())
}
