package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/playbook"
)

// TestFindReturnsWhatMatches compares the index with the filter on random executions, page by page, also after old rows were dropped.
func TestFindReturnsWhatMatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newExecutions(nil, nil)
		x.maxRows = rapid.SampledFrom([]int{8, 1000}).Draw(t, "rows")
		names := rapid.SampledFrom([]string{"", "a", "b"})
		labels := rapid.SampledFrom([]events.Label{events.Success, events.Failure})
		day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		all := map[uint64]*events.Execution{}
		last := uint64(rapid.IntRange(0, 40).Draw(t, "executions"))
		for seq := uint64(1); seq <= last; seq++ {
			e := &events.Execution{
				Session: names.Draw(t, "session"), RunID: names.Draw(t, "task"), Outcome: events.Outcome{Label: labels.Draw(t, "label")},
				Started: day.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "hour")) * time.Hour),
			}
			for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom([]playbook.BulletID{"x", "y", "z"}), rapid.ID).Draw(t, "shown") {
				e.Shown = append(e.Shown, events.ShownBullet{ID: id})
			}
			e.Book = playbook.Book(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "book"))
			all[seq] = e
			x.addExecution(seq, e)
			x.seq = seq
		}
		f := &Filter{
			Book: "one", Session: names.Draw(t, "of session"), Task: names.Draw(t, "of task"), InSession: rapid.Bool().Draw(t, "in session"),
			Bullet: rapid.SampledFrom([]playbook.BulletID{"", "", "x", "unknown"}).Draw(t, "of bullet"),
			Label:  rapid.SampledFrom([]events.Label{"", events.Failure}).Draw(t, "of label"),
			Before: rapid.SampledFrom([]time.Time{{}, day.Add(2 * time.Hour)}).Draw(t, "before"),
		}
		first, through := x.Range()
		if through != last || first > 0 && last-first+1 > 8 {
			t.Fatalf("the index covers %d to %d of %d", first, through, last)
		}
		var want, got []uint64
		for seq := last; seq > 0 && seq >= first; seq-- {
			if matches(f, all[seq]) {
				want = append(want, seq)
			}
		}
		for end := last + 1; end > 0; {
			var found []uint64
			found, end = x.Find(f, end, 3)
			got = append(got, found...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("filter %+v: got %v, want %v", f, got, want)
		}
	})
}

// matches is the definition of a filter on an execution.
func matches(f *Filter, e *events.Execution) bool {
	return e.Book == f.Book && (f.Session == "" || e.Session == f.Session) && (!f.InSession || e.Session != "") && (f.Task == "" || e.Origin.Task == f.Task) &&
		(f.Bullet == "" || slices.ContainsFunc(e.Shown, func(b events.ShownBullet) bool { return b.ID == f.Bullet })) &&
		(f.Label == "" || e.Outcome.Label == f.Label) && (f.Before.IsZero() || e.Started.Before(f.Before))
}

// TestExecutionsAfterDataLoss: the server lost all executions in a crash, so a new one has the sequence of a lost one.
func TestExecutionsAfterDataLoss(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	publish := func(run string) {
		t.Helper()
		e := &events.Execution{Book: "b", RunID: run, ID: events.ExecutionID("b", "", run, 0), Question: "q", Answer: "a"}
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []string{"1", "2", "3"} {
		publish(run)
	}
	x := New(conn, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		x.Run(ctx)
		close(ended)
	}()
	defer func() { stop(); <-ended }()
	wait := func(run string, want ...uint64) {
		t.Helper()
		var got []uint64
		for range 200 {
			got, _ = x.Executions.Find(&Filter{Book: "b", Run: run}, 100, 10)
			if slices.Equal(got, want) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("executions of run %q: got %v, want %v", run, got, want)
	}
	wait("", 3, 2, 1)
	publish("5")
	wait("", 4, 3, 2, 1)
	time.Sleep(2 * pollInterval) // the index has seen the end of the stream
	emptyStream(t, conn.JetStream(), events.StreamExecutions)
	publish("4")
	wait("4", 1)
	wait("", 1)
}

// TestOldVersionsAreMerged: the number of cells is bounded, and the totals stay.
func TestOldVersionsAreMerged(t *testing.T) {
	t.Parallel()
	x := newExecutions(nil, nil)
	const n = 3 * maxVersions
	for i := range n {
		e := &events.Execution{Book: "b", Version: uint64(i), Outcome: events.Outcome{Label: events.Success}, ContextID: "c", Started: time.Date(2026, 1, 1, i%24, 0, 0, 0, time.UTC)}
		x.resultsOf("b").add(e)
	}
	late := &events.Execution{Version: 1, Outcome: events.Outcome{Label: events.Failure}} // of a merged version
	late.Book = "b"
	x.resultsOf("b").add(late)
	if cells := len(x.results["b"].versions.at); cells > 2*maxVersions {
		t.Errorf("got %d cells", cells)
	}
	c := x.Curve("b", 50, 0)
	if len(c.Versions) != 50 || *c.Versions[49].Version != n-1 || c.Total.Executions != n+1 || c.Earlier.Executions != n+1-50 || c.Earlier.Accuracy.N != n+1-50 {
		t.Errorf("got %d versions, total %+v, earlier %+v", len(c.Versions), c.Total, c.Earlier)
	}
	if got := fmt.Sprint(c.Total.Executions, " ", len(c.Days)); got != fmt.Sprint(n+1, " 2") {
		t.Errorf("got %s", got)
	}
}

// TestLateVersionIsMerged checks that an execution of an old version, which arrives when the oldest versions are merged, is merged, too: the
// list has no version that is older than a merged one.
func TestLateVersionIsMerged(t *testing.T) {
	t.Parallel()
	c := cells[uint64]{limit: 2}
	for _, version := range []uint64{10, 20, 30, 40, 15} {
		c.cell(version).Executions++
	}
	if got := fmt.Sprint(c.keys(), c.earlier.Executions); got != "[30 40] 3" {
		t.Errorf("got versions and earlier executions %s, want [30 40] 3", got)
	}
}

// TestFeedbackOnADroppedRow checks that two outcomes of an execution count once, also if its row was dropped between them.
func TestFeedbackOnADroppedRow(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	e := &events.Execution{Book: "b", ID: events.NewID(), RunID: "run", Question: "q", Started: time.Now()}
	if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	x := newExecutions(conn, nil)
	x.maxRows = 4
	x.addExecution(1, e)
	revise := func(o events.Outcome) {
		t.Helper()
		if err := x.revise(t.Context(), &events.Feedback{Book: "b", Execution: events.NewHandle(1, e.ID), Outcome: o}); err != nil {
			t.Fatal(err)
		}
	}
	revise(events.Outcome{Label: events.Success, Score: 1})
	for seq := uint64(2); seq <= 6; seq++ {
		x.addExecution(seq, &events.Execution{Book: "b", ID: events.NewID(), Started: time.Now()})
	}
	revise(events.Outcome{Label: events.Failure})
	if got := x.Curve("b", 10, 0).Total.Accuracy; got.N != 1 || got.Mean != 0 {
		t.Errorf("got %d known outcomes with a mean of %v, want 1 failure", got.N, got.Mean)
	}
}

// TestErasedDuringARetry checks that an execution does not count any more that was erased while the index waited after a failed read.
func TestErasedDuringARetry(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	for i := range 3 {
		e := &events.Execution{Book: "one", ID: events.NewID(), RunID: fmt.Sprint("run-", i), Question: "q", Started: time.Now()}
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	x := New(conn, nil)
	followUntil := func(want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- x.followExecutions(ctx) }()
		for ctx.Err() == nil && x.Executions.Counts()["one"] != want {
			time.Sleep(10 * time.Millisecond)
		}
		if got := x.Executions.Counts()["one"]; got != want {
			t.Fatalf("got %d executions, want %d", got, want)
		}
		cancel()
		<-done
	}
	followUntil(3)
	stream, err := conn.JetStream().Stream(t.Context(), events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	followUntil(2)
}

// emptyStream replaces a stream by an empty one with the same configuration, whose sequences begin again. Meanwhile the index fails to read it.
func emptyStream(t *testing.T, js jetstream.JetStream, name string) {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * pollInterval)
	if _, err := js.CreateStream(t.Context(), s.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
}

// The index reads all executions again if the stream ends before the last one that it has read, also if it has read that one since the last check.
func TestCheckNoticesLossSinceLastCheck(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	x := New(conn, nil)
	x.readState.FirstSeq, x.readState.LastSeq = 1, 100 // at the last check
	x.Executions.seq = 150                             // read since
	for last, want := range map[uint64]error{125: errReread, 150: nil, 160: nil} {
		x.readState.LastSeq = 100
		if got := x.checkExecutions(bus.Extent{First: 1, Last: last}); !errors.Is(got, want) {
			t.Errorf("the stream ends at %d: got %v, want %v", last, got, want)
		}
	}
}
