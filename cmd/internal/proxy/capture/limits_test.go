package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
	"debrief/events/direct"
)

// stored calls fn for all values in the bucket.
func (d *desk) stored(fn func(m *direct.Message)) {
	d.t.Helper()
	for _, b := range []*bucket{&d.stores[0].open, &d.stores[0].closed} {
		if err := b.read(d.t.Context(), ">", func(m *direct.Message) error { fn(m); return nil }); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestLongTexts plays a run whose texts exceed all limits. It must be stored and reported in short form, and say so.
func TestLongTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Messages)
	long := strings.Repeat("long text\x01 ", 20_000)
	var ids []string
	for i := range 150 {
		ids = append(ids, fmt.Sprint("call-", i))
	}
	c.ask(long, calls(ids...))
	var pairs []string
	for _, id := range ids {
		pairs = append(pairs, id, long[:24<<10])
	}
	c.results(pairs...)
	c.next(calls("more"))
	for i := range 10 {
		c.results("more", fmt.Sprint(i, long[:24<<10]))
		c.next(calls("more"))
	}
	c.results("more", "done")
	c.next(says(long))
	d.stored(func(m *direct.Message) {
		if len(m.Data) > 900<<10 {
			t.Errorf("%s has %d bytes", m.Subject, len(m.Data))
		}
	})
	got := d.closeAll()
	if len(got) != 1 {
		t.Fatalf("got %d executions", len(got))
	}
	r := got[0]
	if n := size(r); n > maxReport {
		t.Errorf("the report has %d bytes", n)
	}
	if len(r.Steps) != 12 || !strings.Contains(r.Question, "[cut ") || !strings.Contains(r.Answer, "[cut ") || !strings.Contains(r.Steps[0].Calls[0].Output, "[cut ") {
		t.Errorf("got %d steps, question %.40q, answer %.40q", len(r.Steps), r.Question, r.Answer)
	}
}

// TestManySteps reports a run whose steps do not fit into a report, however short they are.
func TestManySteps(t *testing.T) {
	t.Parallel()
	r := &events.Report{Question: "Who?", Answer: "Ann."}
	for i := range 20_000 {
		r.Steps = append(r.Steps, events.Step{Text: fmt.Sprint("step ", i, strings.Repeat(".", 100))})
	}
	fitReport(r)
	if n := size(r); n > maxReport || len(r.Steps) < 1000 || !strings.HasPrefix(r.Steps[len(r.Steps)-1].Text, "step 19999") || r.Context == "" {
		t.Errorf("got %d bytes, %d steps, context %q", n, len(r.Steps), r.Context)
	}
	c := &part{Items: make([]modelapi.Item, 40_000)}
	if c.shrink(); c.size() > maxCall || len(c.Items) == 0 {
		t.Errorf("got a call of %d bytes", c.size())
	}
}

// TestStoredSize checks that the values of a run do not grow with the number of its calls.
func TestStoredSize(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.ask("Who?", calls("c-0"))
	for i := range 60 {
		c.results(fmt.Sprint("c-", i), "result")
		c.next(calls(fmt.Sprint("c-", i+1)))
	}
	d.stored(func(m *direct.Message) {
		if len(m.Data) > 2048 {
			t.Errorf("%s has %d bytes", m.Subject, len(m.Data))
		}
	})
}

// TestSecretsAreNotStored checks all stored values for a secret that is in each text of a call.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	d := open(t)
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	c := d.client(modelapi.Chat)
	c.session, c.task = "session "+secret, secret
	r := calls("a")
	r.Text, r.Calls[0].Arguments = "I use "+secret, `{"token":"`+secret+`"}`
	c.ask("Is "+secret+" valid?", r)
	c.results("a", "error: "+secret+" is not valid")
	c.ask("no, "+secret, says(secret))
	d.stored(func(m *direct.Message) {
		if bytes.Contains(m.Data, []byte(secret)) {
			t.Errorf("%s contains the secret", m.Subject)
		}
	})
	d.closeAll()
}

// TestWithoutBucket checks that calls fail fast if the bucket does not exist, or if NATS is away.
func TestWithoutBucket(t *testing.T) {
	t.Parallel()
	d := open(t)
	running := d.client(modelapi.Chat)
	running.user("Who?")
	o := running.begin()
	<-o.done
	if err := d.conn.JetStream().DeleteStream(t.Context(), d.stores[0].open.stream()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	check := func(name string, want error) {
		if _, err := d.stores[0].Begin(ctx, running.call(0)); !errors.Is(err, want) {
			t.Errorf("%s: begin: got %v", name, err)
		}
		if err := o.Finish(ctx, says("Ann."), 200); err == nil {
			t.Errorf("%s: finish: got no error", name)
		}
		if _, err := d.stores[0].Feedback(ctx, &events.FeedbackRequest{Book: "b", Execution: events.Handle(o.Run)}); !errors.Is(err, want) {
			t.Errorf("%s: feedback: got %v", name, err)
		}
	}
	check("no bucket", nats.ErrNoResponders)
	d.nc.Close()
	check("no connection", errDisconnected)
	if ctx.Err() != nil {
		t.Error("the calls took until their deadline")
	}
}

// TestFinishAfterFailedBegin checks that Finish stores what could not be stored while the model worked.
func TestFinishAfterFailedBegin(t *testing.T) {
	t.Parallel()
	d := open(t)
	js := d.conn.JetStream()
	old, err := js.Stream(t.Context(), d.stores[0].open.stream())
	if err != nil {
		t.Fatal(err)
	}
	c := d.client(modelapi.Chat)
	c.user("Who?")
	o := c.match(0)
	if err := js.DeleteStream(t.Context(), d.stores[0].open.stream()); err != nil {
		t.Fatal(err)
	}
	o.Start(Block{Text: "advice", ContextID: "ctx"}, nil)
	<-o.done
	if _, err := js.CreateStream(t.Context(), old.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	d.stores = []*Store{o.store}
	if o.failed == nil {
		t.Error("a write without a bucket succeeded")
	}
	c.end(o, says("Ann."))
	got := d.closeAll()
	if len(got) != 1 || got[0].ContextID != "ctx" || got[0].Answer != "Ann." {
		t.Errorf("got %+v", got)
	}
}

func TestNoTurn(t *testing.T) {
	t.Parallel()
	d := open(t)
	blank, results := d.client(modelapi.Chat), d.client(modelapi.Responses)
	blank.user("  ")
	results.previous = "resp_unknown"
	results.results("a", "ann")
	for _, c := range []*client{d.client(modelapi.Chat), blank, results} {
		if _, err := d.stores[0].Begin(t.Context(), c.call(0)); !errors.Is(err, ErrNoTurn) {
			t.Errorf("%v: got %v", c.items, err)
		}
	}
}

// TestLateBeginningIsNotStored: if the beginning of a call could not be stored before the client had the reply, its next call begins
// another run. Then the first one must not be stored, or the run would count twice.
func TestLateBeginningIsNotStored(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.user("Who?")
	o := c.match(0)
	o.store.acked.Store(0) // the server stores nothing
	o.done = make(chan struct{})
	o.store.calls.add(o.place.start, 1)
	slow, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := o.Finish(slow, calls("a"), 200); !errors.Is(err, errLate) {
		t.Errorf("slow: got %v", err)
	}
	if o.Hold() {
		t.Error("the client waits for a server that stores nothing")
	}
	if o.release.setBegun() == nil {
		t.Error("the beginning of a released call counts")
	}
	o.failed = context.DeadlineExceeded
	close(o.done)
	if err := o.Finish(t.Context(), calls("a"), 200); !errors.Is(err, errLate) {
		t.Errorf("repeated: got %v", err)
	}
	if got := d.closeAll(); len(got) != 0 || d.counted(Lost) != 2 {
		t.Errorf("got %+v, %d lost calls", got, d.counted(Lost))
	}
}

// TestBusyServerLosesNoCall: as long as the server stores other calls, the client waits for a beginning.
func TestBusyServerLosesNoCall(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	c.user("Who?")
	o := c.match(0)
	o.store.acked.Store(time.Now().Add(time.Hour).UnixNano()) // the server stores other calls
	o.store.calls.add(o.place.start, 1)
	o.done = make(chan struct{})
	finished := make(chan error)
	go func() { finished <- o.Finish(t.Context(), says("Ann."), 200) }()
	if !o.Hold() {
		t.Error("the client is released")
	}
	if o.failed = o.storeBeginning(t.Context()); o.failed != nil {
		t.Error(o.failed)
	}
	close(o.done)
	if err := <-finished; err != nil {
		t.Error(err)
	}
	o.release.firstHold = time.Now().Add(-maxHold)
	if o.Hold() {
		t.Error("the client waits without a limit")
	}
	if got := executions(d.closeAll()); len(got) != 1 || d.counted(Lost) != 0 {
		t.Errorf("got %+v, %d lost calls", got, d.counted(Lost))
	}
}

// TestTemporaryErrors checks which errors Finish waits for.
func TestTemporaryErrors(t *testing.T) {
	t.Parallel()
	d := open(t)
	s := d.stores[0]
	away, err := nats.Connect("nats://127.0.0.1:1", nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	if s.isTemporary(context.DeadlineExceeded, 0) || !s.isTemporary(context.DeadlineExceeded, 1) {
		t.Error("a timeout is temporary only if the connection was interrupted")
	}
	s.nc = away
	if _, err := s.open.put(t.Context(), "x", new(part), 0); !s.isTemporary(err, 0) || s.isTemporary(nil, 0) {
		t.Errorf("got %v, want a temporary error", err)
	}
	away.Close()
	if _, err := s.open.put(t.Context(), "x", new(part), 0); err == nil || s.isTemporary(err, 0) {
		t.Errorf("got %v, want a lasting error", err)
	}
}
