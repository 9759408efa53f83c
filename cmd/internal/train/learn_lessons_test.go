package train

import (
	"context"
	"strings"
	"testing"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/curator"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/reflector/rules"

	book "debrief/playbook"
)

// newLearning returns a session whose Curator runs until the end of the test.
func newLearning(t *testing.T) *cli.Session {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{})
	work, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- app.Run(work, conn, app.NewCurator(nil, curator.Config{})) }()
	t.Cleanup(func() {
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	})
	return &cli.Session{Conn: conn}
}

// TestRefusedLessonCostsOneLesson checks that the lessons after a refused one are added, and that the refused one is listed without
// its secret.
func TestRefusedLessonCostsOneLesson(t *testing.T) {
	t.Parallel()
	s := newLearning(t)
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	res := &learnResult{Analysis: rules.Result{Lessons: []rules.Lesson{
		{Key: "a", Section: "tools", Content: "Before `push`, give the token " + secret + strings.Repeat(" long", book.MaxContent), Evidence: "in 3 runs"},
		{Key: "b", Section: "tools", Content: "Before `book`, call `get_user`.", Evidence: "in 4 runs"},
	}}}
	if err := new(Learn).addLessons(t.Context(), s, "b", res, nil); err != nil {
		t.Fatal(err)
	}
	if len(res.New) != 1 || res.New[0].Evidence != "in 4 runs" {
		t.Errorf("got new bullets %+v, want the second lesson", res.New)
	}
	if len(res.Refused) != 1 || !strings.HasPrefix(res.Refused[0].Content, "Before `push`, give the token ") || res.Refused[0].Reason == "" {
		t.Fatalf("got refused lessons %+v, want the first lesson with a reason", res.Refused)
	}
	if r := res.Refused[0]; strings.Contains(r.Content+r.Reason, secret) {
		t.Errorf("got the secret in %+v", r)
	}
}
