package generator

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"debrief/events"
	"debrief/generator/scoring"
)

// NewFeedback is what a request to judge an execution comes to, at every door. It must say something: how well it went,
// what would have been right, or anything else about it.
func NewFeedback(r *events.FeedbackRequest) (*events.Feedback, error) {
	f := &events.Feedback{
		ID: cmp.Or(r.ID, events.NewID()), Execution: r.Execution, Outcome: r.Outcome.Complete(), Target: r.Target, Created: time.Now().UTC(),
	}
	f.Book = r.Book
	if f.Outcome.Label == "" && f.Target == "" && f.Outcome.Feedback == "" {
		return nil, invalid("outcome.label: is empty, and so are score, feedback and target: there is nothing to learn")
	}
	if err := errors.Join(f.Book.Validate(), f.Validate()); err != nil {
		return nil, &RequestError{err}
	}
	return f, nil
}

// Judge holds the answer of an execution against the target that feedback brings, where the feedback does not judge
// itself and the execution's task named how to compare. Programs are not asked again.
func Judge(f *events.Feedback, e *events.Execution) error {
	if f.Outcome.Label != "" || f.Target == "" || e.Evaluator == "" || strings.HasPrefix(e.Evaluator, scoring.ByProgram) {
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
