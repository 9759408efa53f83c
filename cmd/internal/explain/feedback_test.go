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
		got := explain.Feedback(&request.FeedbackResult{Handle: "9-ab12cd34", Version: "2@ab12cd", FeedbackEffect: &test.effect})
		if got != strings.Join(test.lines, "\n") {
			t.Errorf("%s: got %q", test.name, got)
		}
	}
}

func TestFeedbackWithoutEffect(t *testing.T) {
	t.Parallel()
	stored := request.FeedbackResult{Handle: "9-ab12cd34", Execution: "4-ab12cd34"}
	if got, want := explain.Feedback(&stored), "stored as 9-ab12cd34; see its effect with: debrief playbook why 4-ab12cd34"; got != want {
		t.Errorf("stored: got %q", got)
	}
	duplicate := request.FeedbackResult{Execution: "4-ab12cd34", Version: "2@ab12cd"}
	if got, want := explain.Feedback(&duplicate), "duplicate: version 2@ab12cd already covers this feedback; nothing was changed"; got != want {
		t.Errorf("duplicate: got %q", got)
	}
}
