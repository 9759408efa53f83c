package steps

import (
	"cmp"
	"encoding/json"
	"fmt"

	"debrief/events"
	"debrief/events/outcome"
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
		d, err := outcome.Decode(field.raw)
		o := d.Outcome
		if err != nil {
			return o, fmt.Errorf("field %s: %w", field.name, err)
		}
		if o.Label = cmp.Or(o.Label, events.Unknown); o.Known() {
			o.By = cmp.Or(o.By, by)
		}
		return o, nil
	}
	return events.Outcome{Label: events.Unknown}, nil
}

// The names of the fields with a question and an answer, outside conversations. The first one that has a value is used.
var (
	QuestionNames = []string{"question", "input", "prompt", "query", "instruction", "problem"}
	AnswerNames   = []string{"answer", "output", "response", "completion", "prediction", "model_answer", "model_output", "final_answer"}
)
