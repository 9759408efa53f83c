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

// chatLog is a recorded conversation of OpenAI's chat API: an example for fine-tuning, or a request with its response. It may
// have an outcome.
type chatLog struct {
	ID       json.RawMessage   `json:"id"`
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Choices  []choice          `json:"choices"`
	Usage    usage             `json:"usage"`
	recordedOutcome
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

// recordedOutcome holds the fields for the outcome of a run. The first one that is set is used.
type recordedOutcome struct {
	Outcome json.RawMessage `json:"outcome"`
	Reward  json.RawMessage `json:"reward"`
	Score   json.RawMessage `json:"score"`
}

// chatObject parses an object with the messages of a run.
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
		if len(choices) > 0 && choices[0].Message != nil { // the conversation continued with the first choice
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
		recordedOutcome
	}
	_ = json.Unmarshal(l.Metadata, &about) // metadata has no fixed form
	if r.Outcome, err = l.outcome(sourceOpenAIChat); err != nil {
		return nil, err
	}
	if other, err := about.outcome(sourceOpenAIChat); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	} else if !r.Outcome.Known() && other.Known() {
		r.Outcome = other
	}
	for _, id := range []json.RawMessage{l.ID, about.ID, l.Response.ID} {
		if r.name, err = parseID("id", id); err == nil {
			break
		}
	}
	r.Model = cmp.Or(l.Response.Model, l.Model, l.Request.Model)
	r.Usage = chat.Usage{
		InputTokens:  validCount(l.Usage.Prompt + l.Response.Usage.Prompt),
		OutputTokens: validCount(l.Usage.Completion + l.Response.Usage.Completion),
	}
	return r, nil
}

// chatMessages builds a run from objects that are single messages.
type chatMessages struct{ conversation }

func (c *chatMessages) add(_ *shape, raw []byte) error {
	var m message
	if err := decode(raw, &m); err != nil {
		return err
	}
	return c.conversation.add(&m)
}

func (c *chatMessages) end() (*run, error) { return c.execution() }

// toolFailed reports whether a tool's output looks like an error: by its first word, or as an object with an error.
func toolFailed(_, output string) bool {
	return strings.HasPrefix(output, "Error") || strings.HasPrefix(output, "error:") || reportsError(output)
}

// outcome returns the recorded outcome, or Unknown without any field. If the field does not name an evaluator, it uses
// by.
func (v *recordedOutcome) outcome(by string) (events.Outcome, error) {
	for _, field := range []struct {
		name string
		raw  json.RawMessage
	}{{"outcome", v.Outcome}, {"reward", v.Reward}, {"score", v.Score}} {
		if len(field.raw) == 0 || string(field.raw) == "null" {
			continue
		}
		o, err := parseOutcome(field.raw)
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

// parseOutcome parses an outcome: an object, a label, a score or a boolean. An error starts with ":", to be appended to the
// name of the field.
func parseOutcome(raw json.RawMessage) (events.Outcome, error) {
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
	return out, fmt.Errorf(": label must be success, partial, failure or unknown, got %.40q", string(out.Label))
}
