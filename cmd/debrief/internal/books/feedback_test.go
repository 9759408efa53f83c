package books

import (
	"slices"
	"testing"

	"debrief/events"
	"debrief/events/deltalog"

	book "debrief/playbook"
)

func TestFeedbackRequest(t *testing.T) {
	t.Parallel()
	score := func(s float64) *float64 { return &s }
	for _, test := range []struct {
		name  string
		flags Feedback
		want  events.Outcome
		ok    bool
	}{
		{"good", Feedback{Good: true, By: "ann"}, events.Outcome{Label: events.Success, Score: 1, By: "ann"}, true},
		{"bad", Feedback{Bad: true}, events.Outcome{Label: events.Failure}, true},
		{"score", Feedback{Score: score(0.4)}, events.Outcome{Label: events.LabelOf(0.4), Score: 0.4}, true},
		{"text only", Feedback{Text: " too long\n"}, events.Outcome{Feedback: "too long"}, true},
		{"target only", Feedback{Target: "42"}, events.Outcome{}, true},
		{"nothing", Feedback{Text: " "}, events.Outcome{}, false},
		{"two labels", Feedback{Good: true, Bad: true}, events.Outcome{}, false},
		{"label and score", Feedback{Good: true, Score: score(1)}, events.Outcome{}, false},
		{"score above 1", Feedback{Score: score(1.1)}, events.Outcome{}, false},
	} {
		test.flags.Execution = "412-ab12cd34"
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

// TestSummarizeCountsOnlyOwnVotes has a delta that also covers other feedback.
func TestSummarizeCountsOnlyOwnVotes(t *testing.T) {
	t.Parallel()
	l := &feedbackResult{sequence: 9, coverIndex: 1, covering: &deltalog.Record{Delta: book.Delta{
		Version: 3,
		Ops: []book.Op{
			{Kind: book.Retag, Bullet: "a", OldVote: book.Helpful, Harmful: 1, Support: []int{1}},
			{Kind: book.Tag, Bullet: "b", Helpful: 2, Support: []int{0, 1}},
			{Kind: book.Retag, Bullet: "c", OldVote: book.Neutral, Support: []int{1}},
			{Kind: book.Tag, Bullet: "d", Neutral: 1, Support: []int{0}},
			{Kind: book.AddExposures, Bullet: "a", Support: []int{1}},
		},
		Rejected: []book.Rejection{{Reason: "ours", Op: book.Op{Support: []int{1}}}, {Reason: "another", Op: book.Op{Support: []int{0}}}},
	}}}
	l.summarize()
	want := []move{{"a", book.Helpful, book.Harmful}, {"b", "", book.Helpful}, {"c", book.Neutral, ""}}
	if !slices.Equal(l.Moved, want) || l.Outcomes != 1 || !slices.Equal(l.Refused, []string{"ours"}) {
		t.Errorf("got votes %v, %d outcomes, refused %q; want votes %v", l.Moved, l.Outcomes, l.Refused, want)
	}
}
