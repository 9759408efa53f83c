package request

import (
	"bytes"
	"cmp"
	"encoding/json"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

// LooseOutcome has the fields of an outcome that may also be fields of the body, beside or instead of the field outcome.
type LooseOutcome struct {
	Score    json.RawMessage `json:"score,omitempty" doc:"Score of the outcome, instead of an object in outcome."`
	Range    json.RawMessage `json:"range,omitempty" doc:"Range of the score: [low, high]. Default: [0, 1]."`
	Label    json.RawMessage `json:"label,omitempty" doc:"Label of the outcome, instead of an object in outcome."`
	Feedback json.RawMessage `json:"feedback,omitempty" doc:"What the person said, also as text or comment."`
	Comment  json.RawMessage `json:"comment,omitempty" doc:"The same as feedback."`
	Text     json.RawMessage `json:"text,omitempty" doc:"The same as feedback."`
	// Violation is listed because an unknown field is ignored: a token without the scope review must get an error.
	Violation json.RawMessage `json:"violation,omitempty" doc:"True if the run broke a rule that no score outweighs: suspends the bullets behind it. Needs the scope review."`
}

// Merge returns the outcome of a body: the field outcome, which is raw, merged with the loose fields. Without both it is zero. decode decodes one
// value; its errors name the field outcome. A field that is null counts as missing.
func (l *LooseOutcome) Merge(raw json.RawMessage, decode func(json.RawMessage) (events.Outcome, error)) (events.Outcome, error) {
	out, err := decode(raw)
	if err != nil {
		return out, err
	}
	for _, field := range []*json.RawMessage{&l.Score, &l.Range, &l.Label, &l.Feedback, &l.Comment, &l.Text, &l.Violation} {
		if string(*field) == "null" {
			*field = nil
		}
	}
	fields, err := json.Marshal(l)
	if err != nil {
		return out, invalid("outcome", err.Error())
	}
	if string(fields) == "{}" {
		return out, nil
	}
	loose, err := decode(fields)
	switch {
	case err != nil:
		return out, err
	case out.Violation || loose.Violation:
		out.Violation = true // Complete then sets label and score
	case out.Label != "" && loose.Label != "" && (out.Label != loose.Label || out.Score != loose.Score):
		return out, invalid("outcome", "contradicts score or label of the body: send one of them")
	case out.Label == "":
		out.Score, out.Label = loose.Score, loose.Label
	}
	out.Feedback = cmp.Or(out.Feedback, loose.Feedback)
	return out.Complete(), nil
}

// SetMessages sets the empty fields of a report from the messages of its run, if there are any.
func SetMessages(r *events.Report, raw json.RawMessage) error {
	switch list := modelapi.ParseValue(raw); {
	case !list.IsSet():
		return nil
	case len(r.Steps) > 0:
		return invalid("messages", "want either messages or steps")
	case list.Kind() != '[':
		return invalid("messages", "want a list of messages")
	}
	conversation := steps.Conversation{}
	conversation.AddItems(modelapi.Find(raw, ""))
	if _, err := conversation.End(); err != nil {
		return invalid("messages", err.Error())
	}
	r.Question = cmp.Or(r.Question, conversation.Question)
	r.Answer = cmp.Or(r.Answer, conversation.Answer)
	r.Steps = conversation.Steps
	r.Agent = cmp.Or(r.Agent, conversation.Agent)
	return nil
}

// SetTools sets the tools of the agent of a report, in the form of a model API, if there are any.
func SetTools(r *events.Report, raw json.RawMessage) error {
	tools := steps.ToolsOf(modelapi.ParseValue(raw).Tools())
	if len(tools) > 0 {
		r.Agent = cmp.Or(r.Agent, new(events.Agent))
		r.Agent.Tools = tools
		return nil
	}
	switch string(bytes.TrimSpace(raw)) {
	case "", "[]", "null":
		return nil
	}
	return invalid("tools", "want a list of tools in the form of the OpenAI or the Anthropic API")
}
