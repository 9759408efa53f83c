package traces

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/traces/messages"
	"debrief/cmd/internal/traces/source"
	"debrief/events"
)

// chatLog is a recorded conversation of OpenAI's chat API: an example for fine-tuning, or a request with its response. It may
// have an outcome.
type chatLog struct {
	ID       json.RawMessage   `json:"id"`
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Choices  []choice          `json:"choices"`
	Usage    messages.Usage    `json:"usage"`
	messages.RecordedOutcome
	Metadata json.RawMessage `json:"metadata"`

	Request struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
	} `json:"request"`
	Response struct {
		ID      json.RawMessage `json:"id"`
		Model   string          `json:"model"`
		Choices []choice        `json:"choices"`
		Usage   messages.Usage  `json:"usage"`
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
func chatObject(o *source.Object) (*messages.Run, error) {
	var l chatLog
	if err := l.parse(o); err != nil {
		return nil, err
	}
	field := "messages"
	if len(l.Messages) == 0 {
		field, l.Messages = "request.messages", l.Request.Messages
	}
	c := messages.Conversation{Failed: messages.ToolFailed}
	if list := source.Objects(l.Messages); slices.ContainsFunc(list, isOtherDialect) {
		for _, m := range l.Messages {
			c.AddTurns(messages.Parse(m, ""))
		}
	} else if err := messages.Each(field, list, c.Add); err != nil {
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
		messages.RecordedOutcome
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
	r.Usage = l.Usage.Counts().Add(l.Response.Usage.Counts())
	return r, nil
}

// addReply adds the reply in a log. The conversation continued with the first choice. The reply of Anthropic's API has its
// content in the response itself.
func (l *chatLog) addReply(c *messages.Conversation) error {
	for _, choices := range [][]choice{l.Response.Choices, l.Choices} {
		if len(choices) > 0 && choices[0].Message != nil {
			return messages.Each("choices", source.Objects([]json.RawMessage{choices[0].Message}), c.Add)
		}
	}
	if len(l.Response.Content) > 0 {
		t := messages.Turn{Role: "assistant"}
		t.AddContent(l.Response.Content)
		c.AddAnyTurn(&t, events.Step{})
	}
	return nil
}

// isOtherDialect reports whether a message has calls, results or parts in another form than OpenAI's chat API: blocks of
// Anthropic, parts of Gemini or the Vercel AI SDK, or messages of LangChain.
func isOtherDialect(o *source.Object) bool {
	if o.Text("role") == "" && (messages.Roles[o.Text("type")] != "" || o.Has("kwargs")) || o.Has("parts") {
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
	_, isItem := messages.Item(o)
	return isItem || o.Text("role") != ""
}

// chatMessages builds a run from objects that are single messages or items.
type chatMessages struct{ messages.Conversation }

func (c *chatMessages) Add(o *source.Object) error {
	if turns, ok := messages.Item(o); ok {
		if err := source.Decode(o.Raw, &struct{}{}); err != nil {
			return err
		}
		c.AddTurns(turns)
		return nil
	}
	var m messages.Message
	if err := source.Decode(o.Raw, &m); err != nil {
		return err
	}
	if isOtherDialect(o) {
		c.AddTurns(messages.Parse(o.Raw, ""))
		return nil
	}
	return c.Conversation.Add(&m)
}

func (c *chatMessages) End() ([]*messages.Run, error) {
	c.TextActions()
	c.Question = miniTask(c.Question)
	return asRuns(c.Run())
}
