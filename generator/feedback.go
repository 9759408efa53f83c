package generator

import (
	"cmp"
	"errors"
	"time"

	"debrief/events"
	"debrief/generator/scoring"
)

// NewFeedback converts and validates a request; all endpoints use it. The request must contain a label, a score, a
// target or feedback text. Requests of one owner with the same id for an execution are the same feedback. A request without an id is always new
// feedback.
func NewFeedback(r *events.FeedbackRequest) (*events.Feedback, error) {
	if len(r.ID) > maxID {
		return nil, invalidf("id: must have at most %d bytes, got %d", maxID, len(r.ID))
	}
	id := events.NewID()
	if r.ID != "" {
		id = events.Hash("feedback", string(r.Book), r.Caller.Owner, string(r.Execution), string(r.ID))
	}
	f := &events.Feedback{
		Book: r.Book, ID: id, Execution: r.Execution, Outcome: r.Outcome.Complete(), Target: r.Target, Created: time.Now().UTC(),
	}
	if f.Outcome.Label == "" && f.Target == "" && f.Outcome.Feedback == "" {
		return nil, invalidf("outcome.label: required without score, target and feedback")
	}
	if err := errors.Join(f.Book.Validate(), f.Validate()); err != nil {
		return nil, &RequestError{err}
	}
	return f, nil
}

// ScoreFeedback scores the answer of an execution against the target in the feedback. It does so only if the feedback has no
// label and the execution names an evaluator. It does not run outside programs or ask a judge again.
func ScoreFeedback(f *events.Feedback, e *events.Execution) error {
	hasEvaluator := e.Evaluator != "" && !events.WorksWithoutTarget(e.Evaluator)
	if !hasEvaluator || f.Target == "" || f.Outcome.Label != "" {
		return nil
	}
	o, err := scoring.Evaluate(&events.Task{Target: f.Target, Evaluator: e.Evaluator}, scoring.Answer{Final: e.Answer, Reasoning: e.Reasoning})
	if err != nil {
		return &RequestError{err}
	}
	o.Feedback = cmp.Or(f.Outcome.Feedback, o.Feedback)
	f.Outcome = o
	return nil
}
