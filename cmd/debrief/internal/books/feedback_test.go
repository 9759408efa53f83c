package books

import (
	"testing"

	"debrief/events"
)

func TestFeedbackRequest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		flags Feedback
		want  events.Outcome
		ok    bool
	}{
		{"good", Feedback{Good: true}, events.Outcome{Label: events.Success, Score: 1}, true},
		{"bad", Feedback{Bad: true}, events.Outcome{Label: events.Failure}, true},
		{"score", Feedback{Score: "0.4"}, events.Outcome{Label: events.LabelOf(0.4), Score: 0.4}, true},
		{"violation", Feedback{Violation: true, Text: "x"}, events.Outcome{Label: events.Failure, Feedback: "x", Violation: true}, true},
		{"violation and good", Feedback{Violation: true, Good: true}, events.Outcome{}, false},
		{"text only", Feedback{Text: " too long\n"}, events.Outcome{Feedback: "too long"}, true},
		{"target only", Feedback{Target: "42"}, events.Outcome{}, true},
		{"nothing", Feedback{Text: " "}, events.Outcome{}, false},
		{"two labels", Feedback{Good: true, Bad: true}, events.Outcome{}, false},
		{"label and score", Feedback{Good: true, Score: "1"}, events.Outcome{}, false},
		{"points", Feedback{Score: "4/5"}, events.Outcome{Label: events.Partial, Score: 0.8}, true},
		{"thumb", Feedback{Score: "👎", Text: "late"}, events.Outcome{Label: events.Failure, Feedback: "late"}, true},
		{"unknown word", Feedback{Score: "purple"}, events.Outcome{}, false},
		{"score above 1", Feedback{Score: "1.1"}, events.Outcome{}, false},
	} {
		test.flags.Execution, test.flags.Author, test.want.By = "412-ab12cd34", "ann", "ann"
		r, err := test.flags.request()
		if (err == nil) != test.ok {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err == nil && r.Outcome != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, r.Outcome, test.want)
		}
	}
	if _, err := (&Feedback{Execution: "412", Good: true}).request(); err == nil {
		t.Error("an invalid handle was accepted")
	}
}
