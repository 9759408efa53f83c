package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxEcho    = 4 << 10 // bytes of a bad answer that are shown to the model again
	maxProblem = 500     // bytes of what was wrong with it
	maxExcerpt = 200     // bytes of it that end up in an error
)

// Ask asks once and, where parse does not like the answer, once more with the answer and parse's error in the
// conversation. The model reads that error, so it should say what is missing and in which field. The reply is the last
// one, with the usage of both, also when an error is returned.
//
// Errors of the model come back as they are. When the second answer is no better, the error is a *UselessError.
func Ask[T any](ctx context.Context, m Model, p Prompt, parse func(Reply) (T, error)) (T, Reply, error) {
	var none T
	first, err := m.Complete(ctx, p)
	if err != nil {
		return none, first, err
	}
	v, problem := parse(first)
	if problem == nil {
		return v, first, nil
	}

	second, err := m.Complete(ctx, again(p, first, problem))
	second.Usage = first.Usage.Add(second.Usage)
	if err != nil {
		return none, second, err
	}
	if v, problem = parse(second); problem != nil {
		return none, second, &UselessError{Err: problem, Text: clip(second.Text, maxExcerpt)}
	}
	return v, second, nil
}

// again is p with the bad answer and what was wrong with it. A cut answer is not a wrong one: the model is asked for
// less, for with the same appetite it would be cut at the same place.
func again(p Prompt, bad Reply, problem error) Prompt {
	// Chat templates that insist on taking turns refuse two user messages in a row, and servers refuse empty ones.
	said := clip(Spoken(bad.Text), maxEcho)
	if said == "" {
		said = "(no answer)"
	}
	wish := fmt.Sprintf("This answer cannot be used: %s. Answer the same question again, in exactly the form that was asked for and with nothing else.",
		clip(problem.Error(), maxProblem))
	if bad.Cut() {
		wish = "This answer was cut off at the length limit. Answer the same question again, from the beginning and much shorter, so that it is complete."
	}
	p.Messages = append(slices.Clone(p.Messages), Message{Speaker: Assistant, Text: said}, Message{Speaker: User, Text: wish})
	return p
}

// clip is the beginning of s, at most n bytes and never half a character.
func clip(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
