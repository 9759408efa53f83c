package reflector

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/window"
)

// A held execution has a reflection even without lessons, because a replay waits for it. It has none before its last
// round, for an evaluation, or for feedback.
func TestHeldExecutionHasOneReflection(t *testing.T) {
	t.Parallel()
	advice := &advisor{insight: "Each delivery abroad costs a fee."}
	silent := scriptedModel(func() (string, error) { return `{"reasoning":"r","key_insight":""}`, nil })

	quiet := wrongAnswer()
	quiet.Origin.Held, quiet.Manifest, quiet.Shown, quiet.Outcome = true, nil, nil, events.Outcome{Label: events.Unknown}
	ref, ok := handleOne(t, silent, 1, quiet).(*events.Reflection)
	if !ok || hasContent(ref) || !ref.Origin.Held || ref.Handle != events.NewHandle(5, quiet.ID) {
		t.Errorf("nothing to say: got %+v", ref)
	}
	quiet.Origin.Held = false
	if got := handleOne(t, silent, 1, quiet); got != nil {
		t.Errorf("not held: got %+v", got)
	}

	e := wrongAnswer()
	e.Origin.Held = true
	round := handleOne(t, advice, 2, e)
	last := nextExecution(t, round, events.Success, 1)
	if !last.Origin.Held {
		t.Error("the second round is not held")
	}
	ref, ok = handleOne(t, advice, 2, last).(*events.Reflection)
	if !ok || !ref.Origin.Held || ref.ID != events.ReflectionID(e.ID, "", ref.Reflector) {
		t.Errorf("after the last round: got %+v", ref)
	}
	e.Purpose = events.Evaluate
	if got := handleOne(t, advice, 2, e); got != nil {
		t.Errorf("an evaluation: got %+v", got)
	}
}

// Held executions outside of an epoch are not compared with other runs of their task. They leave no notes for later prompts, and feedback
// on them has no effect.
func TestHeldReflectionsDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	attempt := func(name, task string, label events.Label, held bool) bus.Receipt {
		e := failingRun(name, events.Learn)
		e.Origin, e.Outcome = events.Origin{Held: held, Task: task}, events.Outcome{Label: label}
		if label == events.Failure {
			e.Steps[0].Calls[1].Tool = "search"
		}
		return publish(t, conn, e)
	}
	attempt("a-good", "a", events.Success, false)
	held := attempt("a-held", "a", events.Failure, true)
	f := &events.Feedback{Book: "b", ID: events.NewID(), Execution: held.Handle, Outcome: events.Outcome{Label: events.Success}}
	publish(t, conn, f)
	attempt("b-held", "b", events.Success, true)
	attempt("b-bad", "b", events.Failure, false)
	last := attempt("a-bad", "a", events.Failure, false)
	runReflector(t, conn, chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
		approach := "a"
		if _, ok := quotesOf(t, p)[quoteOther]; ok {
			approach = quoteOther
		}
		return chat.Reply{Text: fmt.Sprintf(`{"reasoning": "r", "correct_approach": %q, "key_insight": "i", "section": "others"}`, approach)}, nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := newWorker(nil, conn).waitReflected(ctx, last.Seq); err != nil {
		t.Fatal(err)
	}
	got := map[events.ID]bool{} // execution → whether it was compared with another run
	err := conn.Events.Scan(ctx, events.StreamReflections, events.KindReflection.Subject("b"), 1, func(s bus.Stored) error {
		ref := s.Event.(*events.Reflection)
		if ref.Feedback != "" {
			t.Errorf("got a reflection on feedback: %+v", ref)
		}
		got[ref.Execution] = strings.HasPrefix(ref.CorrectApproach, quoteOther)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[events.ID]bool{}
	for name, paired := range map[string]bool{"a-good": false, "a-held": false, "b-held": false, "b-bad": false, "a-bad": true} {
		want[events.ExecutionID("b", "", name, 0)] = paired
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	notes, _, err := window.New(conn.NATS(), conn.JetStream()).Notes(t.Context(), "b", "", "", 20)
	if err != nil || len(notes) != 3 {
		t.Errorf("got %d notes, %v; want those of the three that are not held", len(notes), err)
	}
}

// Other instructions change the id; the form of the reply and the warning about quoted text stay.
func TestInstructionsChangeTheVersion(t *testing.T) {
	t.Parallel()
	own := Config{Instructions: "You look for what a clockmaker would say.\n"}
	var asked []chat.Prompt
	m := recordingModel(func(p chat.Prompt) { asked = append(asked, p) })
	e := wrongAnswer()
	h := events.NewHandle(7, e.ID)
	ours, err := bustest.Must(New(m, Config{})).Reflect(t.Context(), e, h)
	if err != nil {
		t.Fatal(err)
	}
	other, err := bustest.Must(New(m, own)).Reflect(t.Context(), e, h)
	if err != nil {
		t.Fatal(err)
	}
	if want := ours.Reflector + "+p" + chat.Fingerprint("You look for what a clockmaker would say."); other.Reflector != want || other.ID == ours.ID || other.Handle != h {
		t.Errorf("got %s by %q on %s, want another id, by %q", other.ID, other.Reflector, other.Handle, want)
	}
	system := asked[1].Messages[0].Text
	if !strings.HasPrefix(system, "You look for what a clockmaker would say.\n") || !strings.Contains(system, chat.PromptQuotes) || !strings.Contains(system, systemForm) ||
		strings.Contains(system, chat.PromptAttempt[:40]) {
		t.Errorf("got %q", system)
	}
	if asked[1].Messages[1].Text != asked[0].Messages[1].Text {
		t.Error("the quoted material differs")
	}
	right := wrongAnswer()
	right.Outcome = events.Outcome{Label: events.Success, Score: 1}
	if got := reflectionPrompt(right, own).Messages[0].Text; got != system {
		t.Errorf("of a right answer: got %q", got)
	}
	if alone := bustest.Must(New(nil, own)); alone.version != outcomesVersion {
		t.Errorf("without a model: got version %q", alone.version)
	}
}

// recordingModel passes each prompt to a function and answers without a lesson.
type recordingModel func(chat.Prompt)

func (l recordingModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	l(p)
	return chat.Reply{Text: `{"reasoning": "r", "key_insight": "", "bullet_tags": []}`, Finish: "stop"}, nil
}
