package reflector

import (
	"context"
	"slices"
	"testing"

	"debrief/events"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/playbook"
)

// shownRun returns a run that broke a rule, with two open bullets and one that an experiment showed.
func shownRun(name string, cited ...playbook.BulletID) *events.Execution {
	e := failingRun(name, events.Learn)
	e.Outcome = events.Outcome{Label: events.Failure, Violation: true, By: "program:policy"}
	e.Shown = []events.ShownBullet{{ID: "misc-00001", Content: "one"}, {ID: "misc-00002", Content: "two"}, {ID: "misc-00003", Content: "three"}}
	e.Manifest = &events.Manifest{Exposures: []events.Exposure{{Bullet: "misc-00003", Arm: playbook.ArmShown}, {Bullet: "misc-00004", Arm: playbook.ArmWithheld}}}
	e.Cited = cited
	return e
}

func TestViolationBlamesCitedBullets(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	feedbackOnly := shownRun("feedback", "misc-00001")
	feedbackOnly.Outcome = events.Outcome{Score: 1, Label: events.Success}
	harmless := shownRun("harmless", "misc-00001")
	harmless.Outcome = events.Outcome{Label: events.Failure}
	publish(t, conn, shownRun("cites", "misc-00002", "misc-00009"))
	publish(t, conn, shownRun("cites nothing"))
	publish(t, conn, harmless)
	late := publish(t, conn, feedbackOnly)
	publish(t, conn, feedback(late.Handle, events.Outcome{Label: events.Failure, Violation: true, By: "ann"}))
	runReflector(t, conn, nil)
	for i, r := range reflections(t, conn, 5) {
		want := [][]playbook.BulletID{{"misc-00002"}, {"misc-00003"}, nil, nil, {"misc-00001"}}[i]
		if !slices.Equal(r.Suspends, want) {
			t.Errorf("reflection %d on %s: suspends %v, want %v", i, r.Handle, r.Suspends, want)
		}
	}
}

// A violation is not tried again: the next round would hide it.
func TestViolationEndsTheRounds(t *testing.T) {
	t.Parallel()
	r := bustest.Must(New(chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) { return chat.Reply{}, nil }), Config{Rounds: 3}))
	e := &events.Execution{Evaluator: events.ProgramEvaluator + "policy", Outcome: events.Outcome{Label: events.Failure}}
	if !r.hasNextRound(e) {
		t.Fatal("a failure has no next round")
	}
	if e.Outcome.Violation = true; r.hasNextRound(e) {
		t.Error("a violation has a next round")
	}
}
