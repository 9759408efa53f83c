package explain_test

import (
	"strings"
	"testing"

	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/request"

	book "debrief/playbook"
)

func TestFeedback(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		effect request.FeedbackEffect
		lines  []string
	}{
		{"nothing", request.FeedbackEffect{}, []string{"no vote moved, version 2@ab12cd"}},
		{
			"votes",
			request.FeedbackEffect{Moved: []request.MovedVote{{Bullet: "a", Before: book.Helpful, After: book.Harmful}, {Bullet: "b", After: book.Helpful}}},
			[]string{"2 votes moved, version 2@ab12cd", "  a  " + string(book.Helpful) + " → " + string(book.Harmful), "  b  " + string(book.Helpful) + " (new)"},
		},
		{
			"outcomes and refusals",
			request.FeedbackEffect{Outcomes: 1, Refused: []string{"odd", "odd", "late"}},
			[]string{"no vote moved, version 2@ab12cd", "  outcomes in experiments moved as well", "  not applied: odd", "  not applied: late"},
		},
	} {
		got := explain.Feedback(&test.effect, "2@ab12cd")
		if got != strings.Join(test.lines, "\n") {
			t.Errorf("%s: got %q", test.name, got)
		}
	}
}
