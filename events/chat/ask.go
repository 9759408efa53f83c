package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"debrief/playbook/text"
)

const (
	maxEcho    = 4 << 10 // bytes of an invalid answer in the next prompt
	maxProblem = 500     // bytes of the parse error in the next prompt
	maxExcerpt = 200     // bytes of an invalid answer in an error
)

// MaxCalls is the maximum number of calls of Ask. If each answer is invalid with probability p, independent of the others, Ask fails
// with probability p⁴: 13 % for p = 0.6. After that the bus delivers the message up to four times again. All five deliveries fail with
// probability p²⁰, which is below 0.01 % for p = 0.6, and cost 20 calls. The bus makes twice as many attempts, and so up to 40 calls,
// while the model gives no valid answer for any message.
const MaxCalls = 4

// Ask calls the model and parses the reply. If parse fails, Ask calls the model again at once, up to MaxCalls times in all.
// Each further prompt contains the error of parse, which should name the field and the problem. The second and fourth prompts
// also contain the invalid answer. The third does not: a model can repeat a bad form that it sees. The returned reply has
// the usage of all calls, also together with an error.
//
// If a reply lacks a required field, so that parse returns a *MissingError, Ask calls the model again too. It returns the second such
// reply, or the only one after the last call, with its value and no error: the rest of the reply may be useful.
//
// Errors of the model are returned unchanged. If all answers are invalid, the error is a *UselessError. Ask reports
// the quality of the first reply to the observer of ctx, see ObserveReplies.
func Ask[T any](ctx context.Context, m Model, p Prompt, parse func(Reply) (T, error)) (T, Reply, error) {
	var zero, partial T
	var partialReply *Reply // the first reply without a required field
	var spent Usage
	next := p
	for call := 1; ; call++ {
		began := time.Now()
		reply, err := m.Complete(ctx, next)
		reply.Usage.Duration = time.Since(began)
		spent = spent.Add(reply.Usage)
		reply.Usage = spent
		if err != nil {
			return zero, reply, err
		}
		v, quality, problem := parseWithQuality(reply, parse)
		if call == 1 {
			if observe, ok := ctx.Value(observerKey{}).(func(Quality)); ok {
				observe(quality)
			}
		}
		isMissing := errors.As(problem, new(*MissingError))
		switch {
		case problem == nil, isMissing && (partialReply != nil || call == MaxCalls):
			return v, reply, nil
		case call == MaxCalls && partialReply != nil:
			partialReply.Usage = spent
			return partial, *partialReply, nil
		case call == MaxCalls:
			return zero, reply, &UselessError{Err: problem, Text: text.Excerpt(reply.Text, maxExcerpt)}
		case isMissing:
			partial, partialReply = v, &reply
		}
		if call == 2 {
			next = freshPrompt(p, reply, problem)
		} else {
			next = continuedPrompt(next, reply, problem)
		}
	}
}

// continuedPrompt returns p with the invalid answer and its problem. If the length limit truncated the answer, the
// model is asked for a shorter one. Otherwise the next answer would be truncated at the same place.
func continuedPrompt(p Prompt, bad Reply, problem error) Prompt {
	// Some chat templates reject two user messages in succession, and servers reject empty messages.
	answer := text.Excerpt(StripThinking(cmp.Or(bad.Text, bad.Thoughts)), maxEcho)
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

// freshPrompt returns p with the problem of an earlier answer at its end, without that answer.
func freshPrompt(p Prompt, bad Reply, problem error) Prompt {
	request := fmt.Sprintf("# Reply format\n\nAn earlier reply could not be read: %s. Reply in exactly the form that was asked for and with nothing else.",
		text.Line(problem.Error(), maxProblem))
	if bad.Truncated() {
		request = "# Reply format\n\nAn earlier reply was cut off at the length limit. Reply much shorter, so that the reply is complete."
	}
	p.Messages = slices.Clone(p.Messages)
	if n := len(p.Messages); n > 0 && p.Messages[n-1].Speaker == User {
		p.Messages[n-1].Text += "\n\n" + request
	} else {
		p.Messages = append(p.Messages, Message{Speaker: User, Text: request})
	}
	return p
}

// Quality is how well Ask could read a reply.
type Quality int

// The qualities.
const (
	Valid    Quality = iota // read as written
	Repaired                // its JSON was invalid and was repaired; a part may be lost
	Invalid                 // not usable
)

type observerKey struct{}

// ObserveReplies returns a context with an observer, which replaces the observer of ctx. Ask calls it with the quality of its first reply
// only: otherwise a message that never gets a valid reply would count four times. The observer must be safe for concurrent use
// and must not block.
func ObserveReplies(ctx context.Context, observe func(Quality)) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// parseWithQuality parses a reply and returns its quality.
func parseWithQuality[T any](r Reply, parse func(Reply) (T, error)) (v T, q Quality, err error) {
	isRepaired := false
	r.Repaired = &isRepaired // only parse gets this copy
	v, err = parse(r)
	switch {
	case err != nil:
		q = Invalid
	case isRepaired:
		q = Repaired
	}
	return v, q, err
}
