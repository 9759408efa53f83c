package generator

import (
	"errors"
	"testing"

	"debrief/events"
	"debrief/generator/scoring"
)

func TestFeedbackWithTargetOnlyIsScored(t *testing.T) {
	t.Parallel()
	for why, test := range map[string]struct {
		e    events.Execution
		f    events.Feedback
		want events.Label
	}{
		"right":                     {events.Execution{Answer: "42", Evaluator: scoring.ByNumber}, events.Feedback{Target: "42.0"}, events.Success},
		"wrong":                     {events.Execution{Answer: "41", Evaluator: scoring.ByNumber}, events.Feedback{Target: "42.0"}, events.Failure},
		"programs do not run again": {events.Execution{Answer: "42", Evaluator: "program:judge"}, events.Feedback{Target: "42"}, ""},
		"no evaluator":              {events.Execution{Answer: "42"}, events.Feedback{Target: "42"}, ""},
		"label in the feedback":     {events.Execution{Answer: "42", Evaluator: scoring.ByNumber}, events.Feedback{Target: "42", Outcome: events.Outcome{Label: events.Partial}}, events.Partial},
		"feedback text only":        {events.Execution{Answer: "42", Evaluator: scoring.ByNumber}, events.Feedback{Outcome: events.Outcome{Feedback: "hm"}}, ""},
	} {
		if err := ScoreFeedback(&test.f, &test.e); err != nil || test.f.Outcome.Label != test.want {
			t.Errorf("%s: got %+v, %v, want %q", why, test.f.Outcome, err, test.want)
		}
	}
	f := events.Feedback{Target: "{", Outcome: events.Outcome{Feedback: "hm"}}
	if err := ScoreFeedback(&f, &events.Execution{Evaluator: scoring.BySteps}); !isInvalid(err) || !errors.Is(err, scoring.ErrNotScorable) {
		t.Errorf("invalid target: got %v", err)
	}
	f.Target = "7"
	if err := ScoreFeedback(&f, &events.Execution{Answer: "8", Evaluator: scoring.ByText}); err != nil || f.Outcome.Feedback != "hm" || f.Outcome.By != scoring.ByText {
		t.Errorf("got %+v, %v, want the feedback text of the request", f.Outcome, err)
	}
}
