package steps

import (
	"cmp"
	"fmt"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/outcome"
)

// OutcomeNames are the names of the fields with an outcome.
var OutcomeNames = []string{"outcome", "reward", "score"}

// ParseOutcome returns the outcome in the first of the members that is set. It returns Unknown if none is set. The evaluator is used if
// the outcome names none. Leading is the name of the score that counts among several.
func ParseOutcome(v modelapi.Value, names []string, evaluator, leading string) (events.Outcome, error) {
	for _, name := range names {
		member := v.Get(name)
		if !member.IsSet() {
			continue
		}
		o, err := outcome.Decoder{Leading: outcome.Lead(leading)}.Parse(member.TextOrJSON())
		if err != nil {
			return o, fmt.Errorf("field %s: %w", name, err)
		}
		o.Label = cmp.Or(o.Label, events.Unknown)
		if o.Known() {
			o.By = cmp.Or(o.By, evaluator)
		}
		return o, nil
	}
	return events.Outcome{Label: events.Unknown}, nil
}

// ReadOutcome sets the outcome from the first of the places that has one, and notes the problem of an unreadable one.
func (c *Conversation) ReadOutcome(evaluator, leading string, places ...modelapi.Value) {
	for _, place := range places {
		o, err := ParseOutcome(place, OutcomeNames, evaluator, leading)
		if err != nil {
			place.Note("", "%v", err)
		}
		if !c.Outcome.Known() {
			c.Outcome = o
		}
	}
}

// The names of the fields with a question and an answer, outside conversations. The first one that has a value is used.
var (
	QuestionNames = []string{"question", "input", "prompt", "query", "instruction", "problem"}
	AnswerNames   = []string{"answer", "output", "response", "completion", "prediction", "model_answer", "model_output", "final_answer"}
)
