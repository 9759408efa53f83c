package index

import (
	"context"
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
		first, through := x.Range(f)
		if through != last || first > 0 && last-first+1 > 8 {
			t.Fatalf("the index covers %d to %d of %d", first, through, last)
		}
		var want, got []uint64
		for seq := last; seq > 0 && seq >= first; seq-- {
			if e := all[seq]; e.Book == f.Book && f.Matches(e) {
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

// TestDoubtsAfterDataLoss: the server lost all reflections, so a new one has the sequence of a lost one.
func TestDoubtsAfterDataLoss(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	publish := func(e events.Event) {
		t.Helper()
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var handles []events.Handle
	for _, run := range []string{"1", "2"} {
		e := &events.Execution{Book: "b", RunID: run, ID: events.ExecutionID("b", "", run, 0), Question: "q", Answer: "a"}
		publish(e)
		handles = append(handles, events.NewHandle(uint64(len(handles)+1), e.ID))
	}
	reflect := func(h events.Handle, doubt string) {
		t.Helper()
		id := events.NewID()
		publish(&events.Reflection{Book: "b", ID: id, Execution: id, Sample: id, Handle: h, LabelSuspect: doubt, Created: time.Now()})
	}
	reflect(handles[0], "the target is wrong")
	x := New(conn, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		x.Run(ctx)
		close(ended)
	}()
	defer func() { stop(); <-ended }()
	wait := func(want ...string) {
		t.Helper()
		got := make([]string, len(want))
		for range 600 {
			for i, h := range handles {
				got[i] = x.Executions.Doubt(h)
			}
			if slices.Equal(got, want) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("got doubts %q, want %q", got, want)
	}
	wait("the target is wrong", "")
	emptyStream(t, conn.JetStream(), events.StreamReflections)
	reflect(handles[1], "the rubric is wrong")
	wait("", "the rubric is wrong")
}

// TestDoubtsEndWithTheirExecutions checks that no doubt about an execution stays that is erased, has expired or was dropped.
func TestDoubtsEndWithTheirExecutions(t *testing.T) {
	t.Parallel()
	ids := map[uint64]events.ID{}
	for seq := range uint64(100) {
		ids[seq] = events.NewID()
	}
	doubt := func(x *Executions, seq uint64) {
		t.Helper()
		r := &events.Reflection{Handle: events.NewHandle(seq, ids[seq]), LabelSuspect: "the target is wrong"}
		if err := x.addDoubt(bus.Stored{Seq: 1, Event: r}); err != nil {
			t.Fatal(err)
		}
	}
	add := func(x *Executions, seq uint64) {
		x.addExecution(seq, &events.Execution{})
		x.seq = seq
	}
	check := func(why string, x *Executions, want ...uint64) {
		t.Helper()
		found, _ := x.Find(&Filter{Doubted: true}, 100, 10)
		if !slices.Equal(found, want) {
			t.Errorf("%s: found %v, want %v", why, found, want)
		}
		for seq := range uint64(100) {
			if got := x.Doubt(events.NewHandle(seq, ids[seq])) != ""; got != slices.Contains(want, seq) {
				t.Errorf("%s: sequence %d has a doubt: %t", why, seq, got)
			}
		}
	}
	x := newExecutions(nil, nil)
	for seq := uint64(1); seq <= 3; seq++ {
		add(x, seq)
		doubt(x, seq)
	}
	doubt(x, 9) // the execution is not read yet
	check("at first", x, 9, 3, 2, 1)
	if got := x.Doubt(events.NewHandle(2, events.NewID())); got != "" {
		t.Errorf("another execution with the same sequence, after a loss of data: got the doubt %q", got)
	}
	fresh := newExecutions(nil, nil)
	add(fresh, 1)
	add(fresh, 3)
	x.replace(fresh, 3)
	check("after an erasure of 2", x, 9, 3, 1)
	doubt(x, 2)
	check("after a late reflection on 2", x, 9, 3, 1)
	x.maxRows = 4
	for seq := uint64(10); seq <= 12; seq++ {
		add(x, seq)
	}
	doubt(x, 1)
	if found, _ := x.Find(&Filter{Doubted: true}, 100, 10); !slices.Equal(found, []uint64{3}) {
		t.Errorf("after the rows of 1 were dropped, and 9 was not there: found %v, want 3", found)
	}
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
	if got := fmt.Sprint(c.Total.Inject.Executions, " ", len(c.Days)); got != fmt.Sprint(n, " 2") {
		t.Errorf("got %s", got)
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
