package traces

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"debrief/events"
	"debrief/events/chat"
)

// chatLog is a conversation on OpenAI's chat wire as people keep it: an example for fine-tuning, or a request with what
// was answered. How well it went may stand beside it.
type chatLog struct {
	ID       json.RawMessage   `json:"id"`
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Choices  []choice          `json:"choices"`
	Usage    usage             `json:"usage"`
	verdict
	Metadata json.RawMessage `json:"metadata"`

	Request struct {
		Model    string            `json:"model"`
		Messages []json.RawMessage `json:"messages"`
	} `json:"request"`
	Response struct {
		ID      json.RawMessage `json:"id"`
		Model   string          `json:"model"`
		Choices []choice        `json:"choices"`
		Usage   usage           `json:"usage"`
	} `json:"response"`
}

type choice struct {
	Message json.RawMessage `json:"message"`
}

type usage struct {
	Prompt     float64 `json:"prompt_tokens"`
	Completion float64 `json:"completion_tokens"`
}

// verdict is how well a run went: the first field that is there.
type verdict struct {
	Outcome json.RawMessage `json:"outcome"`
	Reward  json.RawMessage `json:"reward"`
	Score   json.RawMessage `json:"score"`
}

// chatObject is the run in an object with messages.
func chatObject(raw []byte) (*run, error) {
	var l chatLog
	if err := decode(raw, &l); err != nil {
		return nil, err
	}
	field := "messages"
	if len(l.Messages) == 0 {
		field, l.Messages = "request.messages", l.Request.Messages
	}
	c := conversation{failed: toolFailed}
	if err := messages(field, l.Messages, c.add); err != nil {
		return nil, err
	}
	for _, choices := range [][]choice{l.Response.Choices, l.Choices} {
		if len(choices) > 0 && choices[0].Message != nil { // the others were not gone on with
			if err := messages("choices", []json.RawMessage{choices[0].Message}, c.add); err != nil {
				return nil, err
			}
			break
		}
	}
	r, err := c.execution()
	if err != nil {
		return nil, err
	}
	var about struct {
		ID json.RawMessage `json:"id"`
		verdict
	}
	_ = json.Unmarshal(l.Metadata, &about) // it may hold anything
	if r.Outcome, err = l.outcome(OpenAIChat); err != nil {
		return nil, err
	}
	if other, err := about.outcome(OpenAIChat); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	} else if !r.Outcome.Known() && other.Known() {
		r.Outcome = other
	}
	for _, id := range []json.RawMessage{l.ID, about.ID, l.Response.ID} {
		if r.place, err = word("id", id); err == nil {
			break
		}
	}
	r.Model = cmp.Or(l.Response.Model, l.Model, l.Request.Model)
	r.Usage = chat.Usage{
		InputTokens:  count(l.Usage.Prompt + l.Response.Usage.Prompt),
		OutputTokens: count(l.Usage.Completion + l.Response.Usage.Completion),
	}
	return r, nil
}

// chatMessages is a run whose messages stand alone.
type chatMessages struct{ conversation }

func (c *chatMessages) add(_ *shape, raw []byte) error {
	var m message
	if err := decode(raw, &m); err != nil {
		return err
	}
	return c.conversation.add(&m)
}

func (c *chatMessages) end() (*run, error) { return c.execution() }

// toolFailed is how tools that nobody watches over report an error: by its first word, or in an object.
func toolFailed(_, output string) bool {
	return strings.HasPrefix(output, "Error") || strings.HasPrefix(output, "error:") || reportsError(output)
}

// outcome is what the verdict comes to; where none is given it is unknown.
func (v *verdict) outcome(by string) (events.Outcome, error) {
	for _, field := range []struct {
		name string
		raw  json.RawMessage
	}{{"outcome", v.Outcome}, {"reward", v.Reward}, {"score", v.Score}} {
		if len(field.raw) == 0 || string(field.raw) == "null" {
			continue
		}
		o, err := judged(field.raw)
		if err != nil {
			return o, fmt.Errorf("field %s%w", field.name, err)
		}
		if o.Known() {
			o.By = cmp.Or(o.By, by)
		}
		return o, nil
	}
	return events.Outcome{Label: events.Unknown}, nil
}

// judged is an outcome: the object, a label, a score or a truth value. Errors go on behind the name of the field.
func judged(raw json.RawMessage) (events.Outcome, error) {
	var o struct {
		Score    *float64     `json:"score"`
		Label    events.Label `json:"label"`
		Feedback string       `json:"feedback"`
		By       string       `json:"by"`
	}
	var right bool
	switch {
	case json.Unmarshal(raw, &right) == nil:
		o.Label = events.Failure
		if right {
			o.Label = events.Success
		}
	case json.Unmarshal(raw, &o.Score) == nil, json.Unmarshal(raw, &o.Label) == nil:
	default:
		o.Score, o.Label = nil, ""
		if err := json.Unmarshal(raw, &o); err != nil {
			return events.Outcome{}, errors.New(": want an object with score and label, a label, a number from 0 to 1, or true or false")
		}
	}
	out := events.Outcome{Label: o.Label, Feedback: o.Feedback, By: o.By}
	if o.Score != nil {
		if out.Score = *o.Score; !(out.Score >= 0 && out.Score <= 1) {
			return out, fmt.Errorf(": a score must be between 0 and 1, got %v", out.Score)
		}
		out.Label = cmp.Or(out.Label, events.LabelOf(out.Score))
	}
	switch out.Label {
	case events.Success, events.Partial, events.Failure, events.Unknown:
		return out.Complete(), nil
	case "":
		out.Label = events.Unknown
		return out, nil
	}
	return out, fmt.Errorf(": label %.40q is none of success, partial, failure, unknown", string(out.Label))
}
