package generator

import (
	"context"
	"sync/atomic"
	"testing"

	"debrief/events"
	"debrief/events/chat"
)

// listedAnswers is a model that gives the answers of a list in turn. Each call has a usage of one token.
type listedAnswers struct {
	answers []string
	calls   atomic.Int64
}

func (m *listedAnswers) Complete(context.Context, chat.Prompt) (chat.Reply, error) {
	n := int(m.calls.Add(1)) - 1
	text := `{"reasoning": "because of ` + m.answers[n%len(m.answers)] + `", "bullet_ids": [], "final_answer": "` + m.answers[n%len(m.answers)] + `"}`
	return chat.Reply{Text: text, Model: "listed", Usage: chat.Usage{Calls: 1, OutputTokens: 1}}, nil
}

func TestTriesEndWithAnotherOutcome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tries   int
		answers []string
		purpose events.Purpose

		want  string
		calls int
		other string // answer of the other try
	}{
		"right after wrong":    {tries: 3, answers: []string{"41", "42"}, want: "41", calls: 2, other: "42"},
		"wrong after right":    {tries: 3, answers: []string{"42", "42", "40"}, want: "42", calls: 3, other: "40"},
		"always right":         {tries: 3, answers: []string{"42"}, want: "42", calls: 3},
		"always wrong":         {tries: 3, answers: []string{"1", "2", "3"}, want: "1", calls: 3},
		"one try":              {answers: []string{"41", "42"}, want: "41", calls: 1},
		"an evaluation: alone": {tries: 3, answers: []string{"41", "42"}, purpose: events.Evaluate, want: "41", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			m := &listedAnswers{answers: test.answers}
			f.startWith(m, nil, Config{}, testTimeouts)
			q := task("b", "What is six times seven?")
			q.Target, q.Evaluator, q.Tries, q.Purpose = "42", "exact", test.tries, test.purpose
			e, refused := f.answer(q)
			if refused != "" {
				t.Fatal(refused)
			}
			made := max(1, e.Tries)
			if e.Answer != test.want || made != test.calls || m.calls.Load() != int64(test.calls) || e.Usage.OutputTokens != test.calls {
				t.Errorf("got answer %s after %d tries, %d calls, usage %+v; want %s after %d", e.Answer, made, m.calls.Load(), e.Usage, test.want, test.calls)
			}
			other := ""
			if e.OtherTry != nil {
				other = e.OtherTry.Answer
				if e.OtherTry.Reasoning != "because of "+other || e.OtherTry.Outcome.Label == e.Outcome.Label {
					t.Errorf("got the other try %+v with outcome %s", e.OtherTry, e.Outcome.Label)
				}
			}
			if other != test.other {
				t.Errorf("got the other answer %q, want %q", other, test.other)
			}
		})
	}
}
