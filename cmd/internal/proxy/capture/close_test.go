package capture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/direct"
)

// TestReport checks the fields of a report.
func TestReport(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Messages)
	c.session, c.task = "s-1", "t-1"
	c.user("Who?")
	o := c.beginWith(Block{Text: "advice", ContextID: "ctx", Version: 3})
	c.end(o, calls("a", "b"))
	c.results("a", `{"error":"none"}`, "b", "ann")
	c.next(says("Ann."))
	got := d.closeAll()
	if len(got) != 1 {
		t.Fatalf("got %d executions", len(got))
	}
	r := got[0]
	if r.Book != "b" || r.RunID != string(o.Run) || r.Task != "t-1" || r.Turn != 1 || r.Session != "s-1" || r.ContextID != "ctx" || r.Model != "m-1" || r.Started.IsZero() || r.Duration < 0 {
		t.Errorf("got %+v", r)
	}
	if u := r.Usage; u.Calls != 2 || u.InputTokens != 200 || u.CachedTokens != 120 || u.OutputTokens != 20 {
		t.Errorf("usage: got %+v", u)
	}
	want := []events.ToolCall{
		{Tool: "look", Arguments: `{"for":"a"}`, Output: `{"error":"none"}`, Outcome: events.Failure},
		{Tool: "look", Arguments: `{"for":"b"}`, Output: "ann", Outcome: events.Success},
	}
	if len(r.Steps) != 1 || r.Steps[0].Speaker != "assistant" || r.Steps[0].Usage.CachedTokens != 60 {
		t.Fatalf("steps: got %+v", r.Steps)
	}
	if diff := cmp.Diff(want, r.Steps[0].Calls); diff != "" {
		t.Error(diff)
	}
	if r.Outcome.Label != events.Success || !r.Outcome.Inferred {
		t.Errorf("outcome: got %+v", r.Outcome)
	}
	lone := d.client(modelapi.Chat)
	first := lone.ask("Why?", says("So."))
	if got := d.closeAll()[1]; got.RunID != string(first.Run) {
		t.Errorf("task: got %s, want the run %s", got.RunID, first.Run)
	}
}

// TestFeedback gives outcomes to open and to closed runs, by each id that a client has.
func TestFeedback(t *testing.T) {
	t.Parallel()
	d := open(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, ref := range map[string]func(o *ActiveCall, r *modelapi.Reply) string{
		"response": func(_ *ActiveCall, r *modelapi.Reply) string { return r.ID },
		"run":      func(o *ActiveCall, _ *modelapi.Reply) string { return string(o.Run) },
		"session":  func(*ActiveCall, *modelapi.Reply) string { return "session 1" },
		"trace id": func(*ActiveCall, *modelapi.Reply) string { return events.TraceID(trace) },
	} {
		d.reset(t)
		c := d.client(modelapi.Chat)
		c.owner, c.session, c.task = name, "session 1", "task 1"
		c.ask("Whoever?", says("Bob."))
		c.items, c.trace = nil, trace
		reply := says("Ann.")
		o := c.ask("Who?", reply)
		good := &events.FeedbackRequest{
			Caller: events.Caller{Owner: name}, Book: "b", ID: events.NewID(), Execution: events.Handle(ref(o, reply)), Outcome: events.Outcome{Label: events.Success, By: "ann"},
		}
		stored, err := d.stores[0].Feedback(t.Context(), good)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := d.reporter.list(); len(got) != 1 || got[0].Question != "Who?" || got[0].Outcome.Label != events.Success || got[0].Outcome.Score != 1 {
			t.Errorf("%s: got %+v", name, got)
		}
		d.reporter.feedback = nil
		again, err := d.stores[1].Feedback(t.Context(), good)
		if err != nil || again.Handle != stored.Handle {
			t.Errorf("%s: closed: got %v, %v", name, again, err)
		}
		if f := d.reporter.feedback; len(f) != 1 || f[0].Execution != stored.Handle || f[0].ID != good.ID || f[0].Book != "b" {
			t.Errorf("%s: closed: got %+v", name, f)
		}
		d.closeAll()
	}
}

// TestFeedbackOnTurns names the turns of a session by their numbers, with the history at the client and at the provider.
func TestFeedbackOnTurns(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, stored := range []bool{false, true} {
		d.reset(t)
		c := d.client(modelapi.Responses)
		c.owner, c.session = fmt.Sprint(stored), fmt.Sprint("session-", stored)
		var runs []events.ID
		for n := range 20 {
			reply := says(fmt.Sprint("Answer ", n))
			o := c.ask(fmt.Sprint("Question ", n), reply)
			if runs = append(runs, o.Run); o.Session != fmt.Sprint("session-", stored) {
				t.Errorf("stored %t, turn %d: got session %q", stored, n+1, o.Session)
			}
			if stored { // later calls name neither the session nor the turns
				c.items, c.previous, c.session = nil, reply.ID, ""
			}
		}
		d.settle()
		for n, run := range runs {
			if r, err := d.stores[1].findRef(t.Context(), Ref{Book: "b", ID: fmt.Sprintf("session-%t/%d", stored, n+1), Caller: events.Caller{Owner: fmt.Sprint(stored)}}); err != nil || r == nil || r.ID != run {
				t.Errorf("stored %t, turn %d: got %+v, %v, want run %s", stored, n+1, r, err, run)
			}
		}
		d.closeAll()
	}
}

// TestFeedbackOnTurnOfALongSession: a name that is too long is stored shortened, and found by the name that the client knows.
func TestFeedbackOnTurnOfALongSession(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	long := strings.Repeat("s", events.MaxName+1)
	c.session = events.FitName(long)
	o := c.ask("Who?", says("Ann."))
	d.settle()
	if r, err := d.stores[1].findRef(t.Context(), Ref{Book: "b", ID: long + "/1", Caller: events.Caller{Owner: "ann"}}); err != nil || r == nil || r.ID != o.Run {
		t.Errorf("got %+v, %v, want run %s", r, err, o.Run)
	}
}

// TestReportHasTheTrace: the execution of a run belongs to the trace of the client.
func TestReportHasTheTrace(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	for _, trace := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "wrong"} {
		c.trace = trace
		c.ask("Who?", says("Ann."))
		d.closeAll()
		if got := events.TraceID(d.reporter.trace); got != events.TraceID(trace) {
			t.Errorf("%s: got trace %q", trace, got)
		}
	}
}

// TestFeedbackWithoutOutcome sends a comment, a target and a handle.
func TestFeedbackWithoutOutcome(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	o := c.ask("Who?", says("Ann."))
	stored, err := d.stores[0].Feedback(t.Context(), &events.FeedbackRequest{
		Caller: events.Caller{Owner: "ann"}, Book: "b", Execution: events.Handle(o.Run), Target: "Bob.",
	})
	if err != nil || len(d.reporter.feedback) != 1 || d.reporter.feedback[0].Target != "Bob." || d.reporter.feedback[0].Execution != stored.Handle {
		t.Errorf("target: got %v, %v, %+v", stored, err, d.reporter.feedback)
	}
	if _, err := d.stores[0].Feedback(t.Context(), &events.FeedbackRequest{Book: "b", Execution: stored.Handle}); err != nil || len(d.reporter.feedback) != 2 {
		t.Errorf("handle: got %v, %+v", err, d.reporter.feedback)
	}
}

// TestUnknownRun checks references to no run, and to a run that is no execution.
func TestUnknownRun(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	o := c.ask("Who?", cut)
	var all sync.WaitGroup // each unknown reference is looked up several times
	for _, f := range []events.FeedbackRequest{
		{Book: "b", Execution: "unknown"},
		{Book: "b", Execution: "a.*.> b"},
		{Book: "other", Execution: events.Handle(o.Run)},
		{Book: "b", Execution: events.Handle(o.Run)},
	} {
		all.Go(func() {
			var missing interface{ NotFound() bool }
			if _, err := d.stores[0].Feedback(t.Context(), &f); !errors.As(err, &missing) {
				t.Errorf("feedback on %q of %q: got %v", f.Execution, f.Book, err)
			}
		})
	}
	all.Wait()
	if got := d.closeAll(); len(got) != 0 || len(d.reporter.feedback) != 0 || d.counted(Dropped) != 1 {
		t.Errorf("got %d executions, %d dropped runs", len(got), d.counted(Dropped))
	}
}

// TestRun closes a run after its turn and another one after the idle time.
func TestRun(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.reporter.reported = make(chan *events.Report, 2)
	d.stores = []*Store{New(d.nc, d.conn.JetStream(), d.reporter, Config{Idle: time.Millisecond, Log: zerolog.Nop()})}
	c := d.client(modelapi.Chat)
	c.ask("Who?", says("Ann."))
	c.ask("Thanks! Why?", says("So."))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.stores[0].Run(ctx) })
	got := map[string]events.Label{}
	for range 2 {
		r := <-d.reporter.reported
		got[r.Question] = r.Outcome.Label
	}
	stop()
	running.Wait()
	if diff := cmp.Diff(map[string]events.Label{"Who?": events.Success, "Thanks! Why?": events.Unknown}, got); diff != "" {
		t.Error(diff)
	}
}

// TestDeadGatewayClosesOnce simulates gateways that die between the steps of closing.
func TestDeadGatewayClosesOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	o := c.ask("Who?", calls("a"))
	before := revisionOf(t, d.store(), o.Run)
	d.reporter.setError(errors.New("no answer"))
	if _, _, err := d.stores[0].closeWith(t.Context(), o.Run, events.Outcome{}); err == nil {
		t.Error("got no error without a reporter")
	}
	if err := d.stores[1].sweep(t.Context(), time.Now()); err != nil {
		t.Errorf("a run that another gateway closes: %v", err)
	}
	d.reporter.setError(nil)
	later := time.Now().Add(time.Hour)
	if _, err := d.stores[1].update(t.Context(), o.Run, nil, func(r *run) error { r.Closing = later.Add(-2 * time.Hour); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := d.stores[1].sweep(t.Context(), time.Now()); err != nil || len(d.reporter.list()) != 1 {
		t.Errorf("after the death of a gateway: got %d executions, %v", len(d.reporter.list()), err)
	}
	// The open run is still there: the gateway died before it removed it.
	if _, err := d.stores[0].open.put(t.Context(), openKey(o.Run), before.run, 0); err != nil {
		t.Fatal(err)
	}
	if got := d.closeAll(); len(got) != 1 || d.reporter.copies != 0 {
		t.Errorf("got %d executions, %d copies", len(got), d.reporter.copies)
	}
}

// TestDeadGatewayLeavesNothing checks that a sweep completes the last step of a gateway that died after it stored the closed run.
func TestDeadGatewayLeavesNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.ask("Who?", calls("a"))
	c.results("a", strings.Repeat("x", 2*maxSmall)) // a call that is stored apart
	o := c.next(says("Ann."))
	r := revisionOf(t, d.store(), o.Run).run
	values := map[string][]byte{} // of the open run
	if err := d.stores[0].open.read(t.Context(), ">", func(m *direct.Message) error { values[m.Subject] = m.Data; return nil }); err != nil {
		t.Fatal(err)
	}
	if n := len(d.keys("c.")); n != 1 || r.Block == nil {
		t.Fatalf("got %d calls and the block %v, want one of each", n, r.Block)
	}
	d.closeAll()
	if keys := d.keys(""); len(keys) > 0 {
		t.Fatalf("a closed run leaves %v", keys)
	}
	for subject, data := range values {
		if _, err := d.stores[0].open.publish(t.Context(), &nats.Msg{Subject: subject, Header: events.SchemaHeader(), Data: data}, 0); err != nil {
			t.Fatal(err)
		}
	}
	references := d.stores[0].closedReferences(r)
	for _, w := range references {
		if err := d.stores[0].closed.remove(t.Context(), w.key+"."+w.token); err != nil {
			t.Fatal(err)
		}
	}
	restarted := d.store()
	if err := restarted.sweep(t.Context(), time.Now().Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if keys := d.keys(""); len(keys) > 0 {
		t.Errorf("the sweep leaves %v", keys)
	}
	for _, w := range references {
		if list, err := d.store().references(t.Context(), &restarted.closed, w.key); err != nil || len(list) != 1 {
			t.Errorf("reference %s: got %v, %v, want it stored", w.key, list, err)
		}
	}
	if n := d.counted(Reported); n != 1 {
		t.Errorf("got %d reported runs, want 1", n)
	}
}

// TestClosedRunCountsOnce checks that a run whose end could not be stored is counted once.
func TestClosedRunCountsOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	o := d.client(modelapi.Chat).ask("Who?", says("Ann."))
	s := d.stores[0]
	closed := s.closed.name
	s.closed.name = "missing"
	if _, _, err := s.closeWith(t.Context(), o.Run, events.Outcome{}); err == nil {
		t.Error("got no error without a bucket")
	}
	s.closed.name = closed
	if _, _, err := s.closeWith(t.Context(), o.Run, events.Outcome{}); err != nil {
		t.Error(err)
	}
	if got := d.closeAll(); len(got) != 1 || d.counted(Reported) != 1 {
		t.Errorf("got %d executions, counted %d, want 1", len(got), d.counted(Reported))
	}
}

type invalidError struct{ error }

func (invalidError) Invalid() bool { return true }

// TestInvalidReportIsDropped checks that a report that is always refused does not stay open.
func TestInvalidReportIsDropped(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.client(modelapi.Chat).ask("Who?", says("Ann."))
	d.reporter.setError(invalidError{errors.New("question: too large")})
	if got := d.closeAll(); len(got) != 0 || d.counted(Dropped) != 1 {
		t.Errorf("got %d executions, %d dropped runs", len(got), d.counted(Dropped))
	}
}

// TestReplyAfterNextTurn checks that the reply of a turn counts if it is stored after the next turn begins.
func TestReplyAfterNextTurn(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.user("Who?")
	o := c.begin()
	<-o.done
	reply := says("Ann.")
	c.reply(reply)
	next := *c
	next.user("Why?")
	second := next.begin()
	<-second.done
	if err := o.Finish(t.Context(), reply, 200); err != nil {
		t.Fatal(err)
	}
	next.end(second, says("So."))
	want := []execution{{"Who?", "Ann.", nil, 1, events.Unknown}, {"Why?", "So.", nil, 1, events.Unknown}}
	if diff := cmp.Diff(want, executions(d.closeAll())); diff != "" {
		t.Error(diff)
	}
}

// TestNextCallBeforeReplyIsStored checks that a call waits for the reply that it extends.
func TestNextCallBeforeReplyIsStored(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.user("Who?")
	o := c.begin()
	reply := calls("a")
	c.reply(reply)
	c.results("a", "ann")
	c.store = 0 // also if the run is not stored yet
	stored := make(chan error)
	go func() {
		<-time.After(lookupWait.pause)
		stored <- o.Finish(context.Background(), reply, 200)
	}()
	next := c.begin()
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	if next.Run != o.Run {
		t.Errorf("got run %s, want %s", next.Run, o.Run)
	}
	c.end(next, says("Ann."))
	if diff := cmp.Diff([]execution{{"Who?", "Ann.", []string{"ann"}, 2, events.Unknown}}, executions(d.closeAll())); diff != "" {
		t.Error(diff)
	}
}

// revisionOf returns a stored run.
func revisionOf(t *testing.T, s *Store, id events.ID) revision {
	t.Helper()
	found, err := s.runs(t.Context(), []events.ID{id})
	if err != nil || found[id].run == nil {
		t.Fatalf("run %s: %v", id, err)
	}
	return found[id]
}
