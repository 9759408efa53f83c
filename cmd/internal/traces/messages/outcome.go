package messages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"debrief/events"
)

// RecordedOutcome holds the fields for the outcome of a run. The first one that is set is used.
type RecordedOutcome struct {
	Outcome json.RawMessage `json:"outcome"`
	Reward  json.RawMessage `json:"reward"`
	Score   json.RawMessage `json:"score"`
}

// ParseOutcome returns the recorded outcome, or Unknown without any field. If the field does not name an evaluator, it uses
// by.
func (v *RecordedOutcome) ParseOutcome(by string) (events.Outcome, error) {
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

// OutcomeOfText parses an outcome in JSON or in a word of a table: a label, a number from 0 to 1, or a word for right or
// wrong. Empty text is an unknown outcome. An error starts with ":", to be appended to the name of the field.
func OutcomeOfText(text string) (events.Outcome, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return events.Outcome{Label: events.Unknown}, nil
	}
	raw := json.RawMessage(text)
	if !json.Valid(raw) {
		raw = json.RawMessage(strconv.Quote(text))
		if _, err := strconv.ParseFloat(text, 64); err == nil { // such as .5, which JSON does not allow
			raw = json.RawMessage("0" + text)
		}
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch strings.ToLower(strings.TrimSpace(word)) {
		case "true", "yes", "y", "correct", "right", "pass", "passed", "resolved", "ok":
			raw = json.RawMessage("true")
		case "false", "no", "n", "incorrect", "wrong", "fail", "failed", "unresolved":
			raw = json.RawMessage("false")
		case "":
			return events.Outcome{Label: events.Unknown}, nil
		default:
			if _, err := strconv.ParseFloat(word, 64); err == nil {
				raw = json.RawMessage(word)
			} else {
				raw, _ = json.Marshal(strings.ToLower(word))
			}
		}
	}
	return parseOutcome(raw)
}

// The names of the fields with a question and an answer, outside conversations. The first one that has a value is used.
var (
	QuestionNames = []string{"question", "input", "prompt", "query", "instruction", "problem"}
	AnswerNames   = []string{"answer", "output", "response", "completion", "prediction", "model_answer", "model_output", "final_answer"}
)
