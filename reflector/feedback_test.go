package reflector

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/playbook"
)

func feedback(on events.Handle, o events.Outcome) *events.Feedback {
	f := &events.Feedback{Book: "b", ID: events.NewID(), Execution: on, Outcome: o}
	return f
}

// reflections waits for the first n reflections in the book.
func reflections(t *testing.T, conn *bus.Conn, n int) (all []*events.Reflection) {
	t.Helper()
	err := conn.Events.Poll(t.Context(), events.StreamReflections, events.KindReflection.Subject("b"), 0, time.Millisecond, func(s bus.Stored) error {
		if all = append(all, s.Event.(*events.Reflection)); len(all) == n {
			return bus.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Feedback on an execution without lessons is also reflected on: votes may have been cast on it.
func TestFeedbackCorrectsKnownOutcome(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	e := failingRun("known", events.Learn)
	e.Manifest = &events.Manifest{Exposures: []events.Exposure{{Bullet: "misc-00001", Arm: playbook.ArmShown}}}
	known := publish(t, conn, e)
	bare := failingRun("bare", events.Learn)
	bare.Steps, bare.Manifest = nil, nil
	idle := publish(t, conn, bare)
	good, bad := events.Outcome{Label: events.Success}, events.Outcome{Score: 0.25, By: "ann"}
	first := publish(t, conn, feedback(known.Handle, bad))
	publish(t, conn, feedback(idle.Handle, good))
	runReflector(t, conn, nil)
	all := reflections(t, conn, 3)
	own, r := all[0], all[1]
	if own.Handle != known.Handle || own.FeedbackSeq != 0 || own.Corrects || own.FirstRoundScore != 1 {
		t.Errorf("got %+v, want the execution's own first", own)
	}
	if r.Handle != known.Handle || r.FeedbackSeq != first.Seq || !r.Corrects || r.Outcome.Label != events.Partial || r.Outcome.By != "ann" {
		t.Errorf("got %+v, want a correction by the feedback at %d", r, first.Seq)
	}
	if len(r.Exposures) != 1 || r.FirstRoundScore != 0.25 {
		t.Errorf("got exposures %v with score %v", r.Exposures, r.FirstRoundScore)
	}
	if last := all[2]; last.Handle != idle.Handle || !last.Corrects || last.Outcome.Score != 1 || hasContent(last) {
		t.Errorf("got %+v, want a correction with nothing learned", last)
	}
}

// The last outcome is that of earlier feedback or of the execution.
func TestFeedbackWithoutOutcomeKeepsTheLastOutcome(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	e := failingRun("t", events.Learn)
	e.Outcome = events.Outcome{Label: events.Failure, By: "exact", Feedback: "expected 7"}
	at := publish(t, conn, e)
	target := feedback(at.Handle, events.Outcome{})
	target.Target = "42"
	for _, f := range []*events.Feedback{
		target, feedback(at.Handle, events.Outcome{Label: events.Success, By: "ann"}), feedback(at.Handle, events.Outcome{Feedback: "thanks"}),
	} {
		publish(t, conn, f)
	}
	runReflector(t, conn, nil)
	all := reflections(t, conn, 4)
	for i, want := range []events.Outcome{
		e.Outcome, e.Outcome, {Score: 1, Label: events.Success, By: "ann"}, {Score: 1, Label: events.Success, By: "ann", Feedback: "thanks"},
	} {
		if got := all[i].Outcome; !reflect.DeepEqual(got, want) {
			t.Errorf("reflection %d: got outcome %+v, want %+v", i, got, want)
		}
	}
}

func TestFeedbackOnEvaluationIsIgnored(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	at := publish(t, conn, failingRun("exam", events.Evaluate))
	publish(t, conn, feedback(at.Handle, events.Outcome{Label: events.Failure}))
	last := publish(t, conn, failingRun("lesson", events.Learn))
	runReflector(t, conn, nil)
	if r := reflections(t, conn, 1)[0]; r.Handle != last.Handle {
		t.Errorf("got %+v, want a reflection on the lesson alone", r)
	}
}

// The reflection takes longer than the start of the delivery of the feedback.
func TestFeedbackWaitsForTheReflectionOfItsExecution(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	at := publish(t, conn, failingRun("slow", events.Learn))
	publish(t, conn, feedback(at.Handle, events.Outcome{Label: events.Failure}))
	var own, both atomic.Bool
	startReflector(t, bustest.Must(New(scriptedModel(func() (string, error) {
		if own.Swap(true) {
			both.Store(true)
			return `{"key_insight": "later"}`, nil
		}
		for {
			lag, err := conn.Consumers.Lag(t.Context(), events.RoleReflector)
			if err != nil {
				return "", err
			}
			if lag.Last >= 2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if both.Load() {
			t.Error("the feedback did not wait")
		}
		return `{"key_insight": "own"}`, nil
	}), Config{Slots: 2})), conn)
	all := reflections(t, conn, 2)
	if all[0].KeyInsight != "own" || all[1].KeyInsight != "later" || all[0].FeedbackSeq != 0 || all[1].FeedbackSeq == 0 {
		t.Errorf("got %q judged by %d, then %q by %d", all[0].KeyInsight, all[0].FeedbackSeq, all[1].KeyInsight, all[1].FeedbackSeq)
	}
}

// The execution may be retried for hours while the model is unavailable.
func TestFeedbackStopsWaitingAfterMaxWaits(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	at := publish(t, conn, failingRun("stuck", events.Learn)) // and nobody reflects
	f := feedback(at.Handle, events.Outcome{Label: events.Failure})
	judged := publish(t, conn, f).Seq
	r := bustest.Must(New(nil, Config{}))
	e, l, err := newWorker(r, conn).resolveFeedback(t.Context(), f, &bus.Delivery{Event: f, Seq: judged, Attempt: maxWaits + 1})
	if err != nil || e.Outcome.Label != events.Failure || !l.corrects || l.seq != judged {
		t.Errorf("got %+v, %+v, %v; want it to go ahead", e, l, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := newWorker(r, conn).resolveFeedback(ctx, f, &bus.Delivery{Event: f, Seq: judged, Attempt: 1}); err == nil {
		t.Error("a first delivery went ahead")
	}
}

// The execution is stored twice, and the earlier feedback names the other handle.
func TestFeedbackWithoutOutcomeFindsFeedbackOnACopy(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	e := failingRun("t", events.Learn)
	first := publish(t, conn, e)
	publish(t, conn, feedback(first.Handle, events.Outcome{Label: events.Failure, By: "ann"}))
	second, err := conn.Publish(t.Context(), e, bus.PublishOptions{Copy: 1})
	if err != nil || second.Handle == first.Handle {
		t.Fatalf("got %+v, %v; want another copy", second, err)
	}
	publish(t, conn, feedback(second.Handle, events.Outcome{Feedback: "hm"}))
	runReflector(t, conn, nil)
	all := reflections(t, conn, 3)
	if got, want := all[len(all)-1].Outcome, (events.Outcome{Label: events.Failure, By: "ann", Feedback: "hm"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got outcome %+v, want %+v", got, want)
	}
}

// TestFeedbackOnALaterRoundIsDone checks that a second delivery finds the reflection on feedback. The execution is a second round, so its id is
// not that of the sample.
func TestFeedbackOnALaterRoundIsDone(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	e := failingRun("second round", events.Learn)
	e.Origin.Round, e.PreviousRounds = 1, []events.PreviousRound{{Answer: "5"}}
	e.ID = events.ExecutionID(e.Book, e.Owner, e.RunID, 1)
	f := feedback(publish(t, conn, e).Handle, events.Outcome{Label: events.Success})
	published := publish(t, conn, f)
	r := bustest.Must(New(nil, Config{Slots: 1}))
	startReflector(t, r, conn)
	reflections(t, conn, 1)
	done, err := newWorker(r, conn).done(t.Context(), &bus.Delivery{Event: f, Seq: published.Seq, Stored: time.Now().Add(-time.Minute)})
	if err != nil || !done {
		t.Errorf("got %t, %v, want done", done, err)
	}
}
