package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/playbook"
	"debrief/reflector"
)

// interrupted runs until a condition on the progress holds, cancels the run, and waits for its end.
func (h *house) interrupted(c Config, s Sets, o Options, when func(Progress) bool) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 2*time.Minute)
	defer cancel()
	o.OnEvent = func(e Event) {
		if e.Progress != nil && when(*e.Progress) {
			cancel()
		}
	}
	if _, err := Run(ctx, h.conn, c, s, o); !errors.Is(err, context.Canceled) {
		h.Fatalf("the run was to be interrupted: %v", err)
	}
}

// TestEndedRunMakesNoRequests covers expired executions, and an edit of the playbook after the end, which is not part
// of the run.
func TestEndedRunMakesNoRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(32, 10)
	c := Config{Batch: 16}
	out := h.run(c, s, Options{Name: "r"})
	edit := &events.Edit{Book: "r", ID: events.NewID(), Author: "somebody", Created: time.Now(), Ops: []playbook.Op{{Kind: playbook.Add, Section: "a", Content: "By hand."}}}
	if _, err := h.conn.Request(t.Context(), edit, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	again := h.run(c, s, Options{Name: "r"})
	if diff := cmp.Diff(comparable(t, out), comparable(t, again)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(out.Operations, again.Operations); diff != "" {
		t.Error(diff)
	}
	h.forget(20)
	calls := h.model.calls.Load()
	if _, err := h.try(c, s, Options{Name: "r"}); !errors.As(err, new(*ExpiredError)) {
		t.Errorf("got %v, want one that says it has expired", err)
	}
	if n := h.model.calls.Load() - calls; n > 0 {
		t.Errorf("%d calls for a run that is over", n)
	}
}

// forget purges the oldest events of EXECUTIONS.
func (h *house) forget(upto uint64) {
	h.Helper()
	s, err := h.conn.JetStream().Stream(h.Context(), events.StreamExecutions)
	if err == nil {
		err = s.Purge(h.Context(), jetstream.WithPurgeSequence(upto+1))
	}
	if err != nil {
		h.Fatal(err)
	}
}

// TestForkedBulletsAreNotCountedAsOperations runs on a fork.
func TestForkedBulletsAreNotCountedAsOperations(t *testing.T) {
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(16, 4)
	s.Validation, s.Test = nil, nil
	fork := func(ctx context.Context) (uint64, error) {
		e := &events.Edit{Book: "r", ID: events.Hash("fork"), Author: "fork", Created: time.Now(), Ops: []playbook.Op{{Kind: playbook.Put, Bullet: "a-00001", PutBullet: &playbook.Bullet{ID: "a-00001", Section: "a", Content: "Was there."}}}}
		_, err := h.conn.Request(ctx, e, bus.PublishOptions{Repeat: true})
		return 1, err
	}
	out := h.run(Config{Batch: 16}, s, Options{Name: "r", Fork: fork})
	if n := out.Report.Operations["PUT"]; n > 0 || out.Report.Operations["ADD"] == 0 || len(out.Report.Bullets) < 2 {
		t.Errorf("operations %v, %d bullets", out.Report.Operations, len(out.Report.Bullets))
	}
	for _, o := range out.Operations {
		if o.Version <= 1 {
			t.Errorf("operation of the fork: %+v", o)
		}
	}
}

// TestOnlineRunResumes: the points of an interrupted run have the versions that answered.
func TestOnlineRunResumes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(60, 10)
	c := Config{Mode: Online, ValidateEvery: 15}
	var told []string
	o := Options{Name: "r"}
	out := h.run(c, s, o)
	for _, p := range out.Report.Points {
		told = append(told, fmt.Sprint(p.Set, p.Step, " ", p.Book.Version))
	}
	calls := h.model.calls.Load()
	var again []string
	for _, p := range h.run(c, s, o).Report.Points {
		again = append(again, fmt.Sprint(p.Set, p.Step, " ", p.Book.Version))
	}
	if diff := cmp.Diff(told, again); diff != "" {
		t.Error(diff)
	}
	if n := h.model.calls.Load() - calls; n > 0 {
		t.Errorf("%d calls", n)
	}
}

// TestExecutionsRunResumesWithItsRange adds executions, and expires the oldest, while the run is interrupted.
func TestExecutionsRunResumesWithItsRange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(64, 20)
	s.Validation, s.Test = nil, nil
	h.run(Config{Batch: 16}, s, Options{Name: "first"})
	var calls atomic.Int64
	looks := bustest.Must(reflector.New(h.model, reflector.Config{}))
	o := Options{Name: "second", Source: Source{Book: "first", Concurrency: 4, Reflect: func(ctx context.Context, e *events.Execution, at events.Handle) (*events.Reflection, error) {
		calls.Add(1)
		return looks.Reflect(ctx, e, at)
	}}}
	c := Config{Mode: Executions, Batch: 24}
	h.interrupted(c, Sets{}, o, func(p Progress) bool { return p.Step >= 24 })
	more := sets(80, 20).Train.Tasks[64:]
	s.Train.Tasks = more
	h.run(Config{Batch: 16}, s, Options{Name: "elsewhere"}) // another playbook
	for i := range more {
		e := &events.Execution{Book: "first", ID: events.ExecutionID("first", "", more[i].ID, 0), RunID: more[i].ID, Question: more[i].Question, Target: more[i].Target, Answer: "?", Model: "m", Purpose: events.Learn}
		if _, err := h.conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.forget(10)
	out := h.run(c, Sets{}, o)
	if len(out.Samples) != 64 || calls.Load() > 64+4 {
		t.Errorf("%d samples, %d reflections: the run began with 64", len(out.Samples), calls.Load())
	}
	var gathered []string
	err := h.conn.Events.Scan(t.Context(), events.StreamReflections, events.KindEdit.Subject("second"), 1, func(st bus.Stored) error {
		if e := st.Event.(*events.Edit); len(e.Gather) > 0 {
			for _, g := range e.Gather {
				gathered = append(gathered, string(g))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range gathered {
		seen[g] = true
	}
	if len(seen) != len(gathered) || len(seen) != 64 {
		t.Errorf("%d reflections were gathered, %d of them different ones; want each of 64 once", len(gathered), len(seen))
	}
	if a := out.Report.Against; a == nil || a.Book != "first" || a.Bullets == 0 || a.Same+a.Alike+a.OnlyHere != out.Report.Best.Bullets {
		t.Errorf("compared: %+v with %+v", a, out.Report.Best)
	}
}

// TestExecutionsRunUsesLaterFeedback has executions whose only outcome is later feedback.
func TestExecutionsRunUsesLaterFeedback(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	h.stop() // otherwise the reflector of the house runs too
	e := &events.Execution{Book: "desk", ID: events.ExecutionID("desk", "", "a", 0), RunID: "a", Question: "How much?", Answer: "12", Model: "m"}
	at, err := h.conn.Publish(t.Context(), e, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f := &events.Feedback{Book: "desk", ID: events.NewID(), Execution: at.Handle, Outcome: events.Outcome{Label: events.Failure, Feedback: "It is 13."}, Target: "13", Created: time.Now()}
	if _, err := h.conn.Publish(t.Context(), f, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	h.work(2)
	var seen *events.Execution
	tries := 0
	o := Options{Name: "anew", Source: Source{Book: "desk", Reflect: func(ctx context.Context, e *events.Execution, at events.Handle) (*events.Reflection, error) {
		if tries++; tries < 8 { // more attempts than for an unusable reply
			return nil, away{}
		}
		seen = e
		return bustest.Must(reflector.New(h.model, reflector.Config{})).Reflect(ctx, e, at)
	}}}
	out := h.run(Config{Mode: Executions, Batch: 8}, Sets{}, o)
	if seen == nil || seen.Outcome.Label != events.Failure || seen.Target != "13" || !strings.Contains(seen.Outcome.Feedback, "13") {
		t.Errorf("the reflector saw %+v", seen)
	}
	if n := len(out.Report.Losses); n > 0 || out.Report.Epochs[0].Train.N != 1 {
		t.Errorf("%+v, lost %+v", out.Report.Epochs[0].Train, out.Report.Losses)
	}
}

type away struct{}

func (away) Error() string     { return "the model is away" }
func (away) Unavailable() bool { return true }
