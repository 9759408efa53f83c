package generator

import (
	"strings"
	"testing"

	"debrief/events"
	"debrief/generator/scoring"
)

func TestATargetAloneIsHeldAgainstTheAnswer(t *testing.T) {
	t.Parallel()
	for why, test := range map[string]struct {
		e    events.Execution
		f    events.Feedback
		want events.Label
	}{
		"right":                             {events.Execution{Answer: "42", Evaluator: scoring.ByNumber}, events.Feedback{Target: "42.0"}, events.Success},
		"wrong":                             {events.Execution{Answer: "41", Evaluator: scoring.ByNumber}, events.Feedback{Target: "42.0"}, events.Failure},
		"a program is not asked again":      {events.Execution{Answer: "42", Evaluator: "program:judge"}, events.Feedback{Target: "42"}, ""},
		"nobody said how":                   {events.Execution{Answer: "42"}, events.Feedback{Target: "42"}, ""},
		"somebody judged it all the same":   {events.Execution{Answer: "42", Evaluator: scoring.ByNumber}, events.Feedback{Target: "42", Outcome: events.Outcome{Label: events.Partial}}, events.Partial},
		"nothing to compare, only a remark": {events.Execution{Answer: "42", Evaluator: scoring.ByNumber}, events.Feedback{Outcome: events.Outcome{Feedback: "hm"}}, ""},
	} {
		if err := Judge(&test.f, &test.e); err != nil || test.f.Outcome.Label != test.want {
			t.Errorf("%s: got %+v, %v, want %q", why, test.f.Outcome, err, test.want)
		}
	}
	f := events.Feedback{Target: "{", Outcome: events.Outcome{Feedback: "hm"}}
	if err := Judge(&f, &events.Execution{Evaluator: scoring.BySteps}); !isInvalid(err) || !strings.Contains(err.Error(), "target of evaluator steps") {
		t.Errorf("a target that cannot be read: got %v", err)
	}
	f.Target = "7"
	if err := Judge(&f, &events.Execution{Answer: "8", Evaluator: scoring.ByText}); err != nil || f.Outcome.Feedback != "hm" || f.Outcome.By != scoring.ByText {
		t.Errorf("got %+v, %v, want what was said beside the judgement", f.Outcome, err)
	}
}
