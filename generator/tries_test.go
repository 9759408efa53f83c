package generator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator/scoring"
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

// TestViolationInALaterTryCounts checks that no number of tries hides a violation.
func TestViolationInALaterTryCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	script := filepath.Join(t.TempDir(), "judge.sh")
	f.ok(os.WriteFile(script, []byte("#!/bin/sh\nif grep -q '\"because of 40\"'; then echo '{\"violation\":true}'; else echo '{\"score\":1}'; fi\n"), 0o700))
	var p scoring.Program
	f.ok(p.UnmarshalText([]byte("judge=" + script)))
	m := &listedAnswers{answers: []string{"42", "40", "41"}}
	f.startGenerator(bustest.Must(New(m, nil, Config{Scorer: scoring.NewScorer(scoring.Config{Programs: []scoring.Program{p}, Timeout: time.Minute}, 2)})))
	q := task("b", "What is six times seven?")
	q.Evaluator, q.Tries = "program:judge", 3
	e, refused := f.answer(q)
	if refused != "" || e.Answer != "40" || !e.Outcome.Violation || e.OtherTry == nil || e.OtherTry.Answer != "42" || e.Tries != 2 {
		t.Errorf("got %+v with the other try %+v, %s; want the violation as the answer", e, e.OtherTry, refused)
	}
}

// TestFailedTryLosesNoAnswer checks that an answer counts if the model fails at the next try.
func TestFailedTryLosesNoAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := &listedAnswers{answers: []string{"41"}}
	f.startWith(chat.ModelFunc(func(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
		if m.calls.Load() > 0 {
			return chat.Reply{}, errors.New("the line is down")
		}
		return m.Complete(ctx, p)
	}), nil, Config{}, testTimeouts)
	q := task("b", "What is six times seven?")
	q.Target, q.Evaluator, q.Tries = "42", "exact", 3
	if e, refused := f.answer(q); refused != "" || e.Answer != "41" || e.Tries != 1 || e.OtherTry != nil {
		t.Errorf("got %+v, %s; want the first answer", e, refused)
	}
}
