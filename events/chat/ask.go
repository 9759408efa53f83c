package chat

import (
	"context"
	"fmt"
	"slices"

	"debrief/playbook/text"
)

const (
	maxEcho    = 4 << 10 // bytes of an invalid answer in the second prompt
	maxProblem = 500     // bytes of the parse error in the second prompt
	maxExcerpt = 200     // bytes of an invalid answer in an error
)

// Ask calls the model and parses the reply. If parse fails, Ask calls the model once more, with the answer and the
// parse error in the conversation. The model reads that error, so it should name the field and the problem. Ask
// returns the last reply, with the usage of both calls, also together with an error.
//
// Errors of the model are returned unchanged. If the second answer is invalid too, the error is a *UselessError.
func Ask[T any](ctx context.Context, m Model, p Prompt, parse func(Reply) (T, error)) (T, Reply, error) {
	var zero T
	first, err := m.Complete(ctx, p)
	if err != nil {
		return zero, first, err
	}
	v, problem := parse(first)
	if problem == nil {
		return v, first, nil
	}

	second, err := m.Complete(ctx, retryPrompt(p, first, problem))
	second.Usage = first.Usage.Add(second.Usage)
	if err != nil {
		return zero, second, err
	}
	if v, problem = parse(second); problem != nil {
		return zero, second, &UselessError{Err: problem, Text: text.Excerpt(second.Text, maxExcerpt)}
	}
	return v, second, nil
}

// retryPrompt returns p with the invalid answer and its problem. If the length limit truncated the answer, the
// model is asked for a shorter one. Otherwise the next answer would be truncated at the same place.
func retryPrompt(p Prompt, bad Reply, problem error) Prompt {
	// Some chat templates reject two user messages in succession, and servers reject empty messages.
	answer := text.Excerpt(StripThinking(bad.Text), maxEcho)
	if answer == "" {
		answer = "(no answer)"
	}
	request := fmt.Sprintf("This answer cannot be used: %s. Answer the same question again, in exactly the form that was asked for and with nothing else.",
		text.Excerpt(problem.Error(), maxProblem))
	if bad.Truncated() {
		request = "This answer was cut off at the length limit. Answer the same question again, from the beginning and much shorter, so that it is complete."
	}
	p.Messages = append(slices.Clone(p.Messages), Message{Speaker: Assistant, Text: answer}, Message{Speaker: User, Text: request})
	return p
}
