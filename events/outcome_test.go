package events_test

import (
	"reflect"
	"testing"

	"debrief/events"
)

func TestOutcomeAfterFeedback(t *testing.T) {
	t.Parallel()
	was := events.Outcome{Score: 0, Label: events.Failure, By: "exact", Feedback: "expected 7"}
	for why, test := range map[string]struct{ says, want events.Outcome }{
		"a label":              {events.Outcome{Label: events.Success, By: "ann"}, events.Outcome{Score: 1, Label: events.Success, By: "ann"}},
		"a score":              {events.Outcome{Score: 0.25}, events.Outcome{Score: 0.25, Label: events.Partial}},
		"the best score":       {events.Outcome{Score: 1}, events.Outcome{Score: 1, Label: events.Success}},
		"half":                 {events.Outcome{Label: events.Partial}, events.Outcome{Score: 0.5, Label: events.Partial}},
		"both":                 {events.Outcome{Label: events.Partial, Score: 0.9}, events.Outcome{Label: events.Partial, Score: 0.9}},
		"words":                {events.Outcome{Feedback: "too long"}, events.Outcome{Label: events.Failure, By: "exact", Feedback: "too long"}},
		"nothing":              {events.Outcome{}, was},
		"that nobody knows":    {events.Outcome{Label: events.Unknown}, was},
		"an inferred success":  {events.Outcome{Label: events.Success, Inferred: true, Feedback: "I did well"}, was},
		"a failure, with text": {events.Outcome{Label: events.Failure, Feedback: "late"}, events.Outcome{Label: events.Failure, Feedback: "late"}},
	} {
		if got := was.WithFeedback(&events.Feedback{Outcome: test.says}); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", why, got, test.want)
		}
	}
	guess := events.Outcome{Label: events.Failure, Inferred: true}
	for _, says := range []events.Outcome{{Label: events.Success, Score: 1, Inferred: true}, {Label: events.Success, Score: 1}} {
		if got := guess.WithFeedback(&events.Feedback{Outcome: says}); !reflect.DeepEqual(got, says) {
			t.Errorf("an inferred outcome before: got %+v, want %+v", got, says)
		}
	}
	for score, want := range map[float64]events.Label{0: events.Failure, 0.01: events.Partial, 0.99: events.Partial, 1: events.Success} {
		if got := events.LabelOf(score); got != want {
			t.Errorf("score %v: got %s, want %s", score, got, want)
		}
	}
}
