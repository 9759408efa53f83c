package generator

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/generator/scoring"
	"debrief/playbook"
)

// TestLeadingScoreOfThePlaybookDecidesVerdict answers a task through the streams, with a rubric of two scores.
func TestLeadingScoreOfThePlaybookDecidesVerdict(t *testing.T) {
	t.Parallel()
	m := chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
		text := `{"reasoning": "r", "bullet_ids": [], "final_answer": "42"}`
		if p.Name == scoring.ByJudge {
			text = `{"reason": "Rude.", "scores": [{"name": "correct", "score": 1}, {"name": "tone", "score": 0.25}]}`
		}
		return chat.Reply{Text: text, Model: "simulated", Usage: chat.Usage{Calls: 1}}, nil
	})
	f := newFixture(t)
	tone := "tone"
	w := bustest.Must(deltalog.New(f.conn.JetStream()).Writer(t.Context(), "b"))
	_, err := w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{{LeadingScore: &tone}}, nil })
	f.ok(err)
	f.ok(w.Flush(t.Context()))
	f.startWith(m, nil, Config{Scorer: scoring.NewScorer(scoring.Config{Rubric: "Scores: correct, tone"}, 1)}, testTimeouts)
	q := task("b", "What is six times seven?")
	q.Evaluator = scoring.ByJudge
	e, refused := f.answer(q)
	if refused != "" {
		t.Fatal(refused)
	}
	want := []events.NamedScore{{Name: "correct", Score: 1}, {Name: "tone", Score: 0.25}}
	if e.Outcome.Score != 0.25 || e.Outcome.Label != events.Partial || !reflect.DeepEqual(e.Outcome.Scores, want) {
		t.Errorf("got %+v, want score 0.25 of tone, and %v", e.Outcome, want)
	}
}

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
