package generator

import (
	"context"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/scoring"
)

// TestJudgeRatesStoredExecution answers a task through the streams. The usage of the execution counts the answer and both verdicts.
func TestJudgeRatesStoredExecution(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answerFirst string // verdict with the answer before the reference
		want        events.Label
	}{
		"agrees":  {`{"reason": "Six times seven.", "score": 1}`, events.Success},
		"differs": {`{"reason": "No.", "score": 0}`, events.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
				text := `{"reasoning": "r", "bullet_ids": [], "final_answer": "42"}`
				if p.Name == scoring.ByJudge {
					text = test.answerFirst
					asked := p.Messages[1].Text
					if strings.Index(asked, "[[begin reference") < strings.Index(asked, "[[begin answer") {
						text = `{"reason": "Six times seven.", "score": 1}`
					}
				}
				return chat.Reply{Text: text, Model: "simulated", Usage: chat.Usage{Calls: 1, OutputTokens: 5}}, nil
			})
			f := newFixture(t)
			f.startWith(m, nil, Config{}, testTimeouts)
			q := task("b", "What is six times seven?")
			q.Target, q.Evaluator = "forty-two", scoring.ByJudge
			e, refused := f.answer(q)
			if refused != "" {
				t.Fatal(refused)
			}
			if e.Outcome.Label != test.want || e.Outcome.Judge() == "" || !strings.HasPrefix(e.Outcome.By, "judge/simulated/") {
				t.Errorf("got the outcome %+v, want %s by the judge", e.Outcome, test.want)
			}
			if e.Usage.Calls != 3 || e.Usage.OutputTokens != 15 {
				t.Errorf("got usage %+v, want three calls with 15 tokens", e.Usage)
			}
		})
	}
}
