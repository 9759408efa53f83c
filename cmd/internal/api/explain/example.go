package explain

import (
	"context"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Example is an excerpt of an execution.
type Example struct {
	Execution string `json:"execution"`
	Question  string `json:"question,omitempty"`
	Answer    string `json:"answer,omitempty"`
	Feedback  string `json:"feedback,omitempty"`
}

// maxExampleText limits each text of an example, in bytes.
const maxExampleText = 600

// maxTries is the number of the newest executions of which one may be an example. If they have expired, the older ones have expired, too.
const maxTries = 3

// NewestExample returns an excerpt of the newest of the executions that is stored and whose owner mayRead permits, nil if there is none.
// evidence has the oldest first.
func (r *Stored) NewestExample(ctx context.Context, evidence []*playbook.Evidence, mayRead func(owner string) bool) (*Example, error) {
	for i := len(evidence) - 1; i >= max(0, len(evidence)-maxTries); i-- {
		handle := evidence[i].Execution
		e, err := r.Execution(ctx, handle)
		if err != nil {
			return nil, err
		}
		if e != nil && mayRead(e.Owner) {
			return newExample(handle, e), nil
		}
	}
	return nil, nil
}

func newExample(handle string, e *events.Execution) *Example {
	return &Example{
		Execution: handle, Question: text.Excerpt(e.Question, maxExampleText),
		Answer: text.Excerpt(e.Answer, maxExampleText), Feedback: text.Excerpt(e.Outcome.Feedback, maxExampleText),
	}
}
