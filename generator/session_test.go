package generator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/generator/assembly"
)

// turns are what the earlier turns of a chat say, without the system's message and the query.
func turns(m []chat.Message) (said []string) {
	for _, x := range m[1 : len(m)-1] {
		said = append(said, x.Text)
	}
	return said
}

// TestASessionGoesOnWhereverItsTasksLand: two processes answer, each with a connection of its own, and the next task is
// handed in as soon as an answer is there.
func TestASessionGoesOnWhereverItsTasksLand(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	m := [2]*talker{{}, {}}
	a.hire(m[0], nil, Config{Slots: 1}, brisk)
	b.hire(m[1], nil, Config{Slots: 1}, brisk)
	a.until("both pull", func() bool {
		c, err := a.conn.JetStream().Consumer(t.Context(), events.StreamTasks, events.RoleGenerator)
		return err == nil && c.CachedInfo().NumWaiting == 2
	})
	var want []string
	for n := range 40 {
		from := []*house{a, b}[n%2]
		question := fmt.Sprintf("question q%d", n)
		e := from.asks("s", question)
		if e.Turn != n+1 {
			t.Errorf("got turn %d, want %d", e.Turn, n+1)
		}
		var got []string
		for i := range m { // the one who answered has seen it last
			m[i].mu.Lock()
			if k := len(m[i].chats); k > 0 && strings.Contains(text(m[i].chats[k-1]), question+"\n") {
				got = turns(m[i].chats[k-1])
			}
			m[i].mu.Unlock()
		}
		if recent := want[max(0, len(want)-10):]; !slices.Equal(got, recent) { // five turns
			t.Fatalf("turn %d: got %q, want %q", n+1, got, recent)
		}
		want = append(want, question, fmt.Sprintf("answer to q%d", n))
	}
	if len(m[0].chats) == 0 || len(m[1].chats) == 0 {
		t.Errorf("one of two generators answered all of the tasks: %d and %d", len(m[0].chats), len(m[1].chats))
	}
	d := a.desk(nil, Config{}, brisk)
	for i, x := range a.window(d, "s") {
		if want := i + 40 - bus.WindowHistory + 1; x.Turn != want {
			t.Errorf("got turn %d at %d of the window, want %d", x.Turn, i, want)
		}
	}
}

// TestATaskThatComesAgain: a generator died after it had stored an execution. Whoever answers again neither sees the
// earlier attempt nor puts a second one into the window, and what was stored first is what later turns see.
func TestATaskThatComesAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window bool // it was put into the window before the end
		late   bool // and the server has forgotten the id since
	}{
		"before its window was written": {},
		"before its ack":                {window: true},
		"after a long time":             {window: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := build(t)
			d := h.desk(nil, Config{}, brisk)
			q := task("b", "what came out?")
			q.Session = "s"
			own := func(e *events.Execution) {
				e.TaskID, e.ID, e.Turn = q.ID, events.ExecutionID("b", q.ID, 0), 21
			}
			var handle events.Handle
			for n := range bus.WindowHistory - 1 {
				e, r := h.happened("s", fmt.Sprint("older ", n+1), "aye", func(e *events.Execution) { e.Turn = 10 * (n + 1) })
				h.ok(d.remember(t.Context(), e, r))
				if n != 1 {
					continue
				}
				store := h.happened
				if test.late {
					store = h.happenedLongAgo
				}
				first, r := store("s", q.Question, "the first answer", own)
				if handle = r.Handle; test.window {
					h.wrote(first, r)
					h.ok(d.windows.Mark(t.Context(), "b", "s", events.Marked{Mark: events.Star, Interaction: *events.NewInteraction(handle, first)}))
				}
			}
			m := new(talker)
			h.hire(m, nil, Config{Limits: assembly.Limits{Window: 20}}, brisk)
			before := h.messages("KV_" + events.BucketWindow)
			e, refused := h.answer(q)
			if refused != "" {
				t.Fatal(refused)
			}
			if e.Answer != "the first answer" != test.late {
				t.Errorf("got the answer %q, want what was stored first where the server knows it", e.Answer)
			}
			if saw := text(m.last()); strings.Contains(saw, "the first answer") || strings.Count(saw, q.Question) != 1 || !strings.Contains(saw, "older 1") {
				t.Errorf("got %q, want the other turns and nothing of an earlier attempt", saw)
			}
			list := h.window(d, "s")
			at := slices.IndexFunc(list, func(i *events.Interaction) bool { return i.ID == e.ID })
			if at < 0 || list[at].Answer != "the first answer" || list[at].Execution != handle || list[at].Turn != 21 {
				t.Fatalf("got %+v at %d, want what was stored first", list[max(at, 0)], at)
			}
			if test.window && (e.Turn != 21 || at != 2 || h.messages("KV_"+events.BucketWindow) != before) {
				t.Errorf("got turn %d at %d of %d, want its own place and nothing new", e.Turn, at, len(list))
			}
			if list[0].Question != "older 1" {
				t.Errorf("a real turn went: the window begins with %q", list[0].Question)
			}
		})
	}
}

// TestATurnThatIsResentLaterIsNoNewTurn: its task is submitted again after its turn has left the window, and so is a report.
func TestATurnThatIsResentLaterIsNoNewTurn(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	h.forgetIDs()
	q := task("b", "the first question")
	q.Session = "s"
	if _, refused := h.answer(q); refused != "" {
		t.Fatal(refused)
	}
	report := &events.Report{Book: "b", Session: "s", TaskID: "mine", Question: "the reported question", Answer: "aye"}
	_, err := d.Report(t.Context(), report)
	h.ok(err)
	for n := range bus.WindowHistory {
		e, r := h.happened("s", fmt.Sprint("later ", n), "aye", func(e *events.Execution) { e.Turn = n + 3 })
		h.ok(d.remember(t.Context(), e, r))
	}
	before := h.window(d, "s")
	h.idsForgotten()
	again, refused := h.answer(q)
	if refused != "" {
		t.Fatal(refused)
	}
	stored, err := d.Report(t.Context(), report)
	h.ok(err)
	if stored.Duplicate {
		t.Fatal("the server remembers the report's id: the test shows nothing")
	}
	after := h.window(d, "s")
	if again.ID != events.ExecutionID("b", q.ID, 0) || len(after) != bus.WindowHistory || after[0].ID != before[0].ID || after[len(after)-1].ID != before[len(before)-1].ID {
		t.Errorf("got a window from %q to %q, want it as it was", after[0].Question, after[len(after)-1].Question)
	}
}

func TestWindowsOfEverySize(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	for n := range 25 {
		e, r := h.happened("s", fmt.Sprintf("question q%d", n+1), "aye", func(e *events.Execution) { e.Turn = n + 1 })
		h.ok(d.remember(t.Context(), e, r))
	}
	for window, want := range map[string]int{"": 5, "1": 1, "3": 3, "10": 10, "20": 20, "none": 20, "adaptive": 5} {
		reply := h.context(d, &events.ContextRequest{Session: "s", Query: "what did we say of all of this?", Window: window, DryRun: true})
		asked := 0
		for _, said := range turns(reply.Messages) {
			if strings.HasPrefix(said, "question ") {
				asked++
			}
		}
		if asked != want || !strings.Contains(text(reply.Messages), "question q25\n") || reply.Turn != 26 {
			t.Errorf("window %q: got %d turns, and this one is %d; want %d and 26", window, asked, reply.Turn, want)
		}
	}
}

func TestSessionsOfAnyName(t *testing.T) {
	t.Parallel()
	h := build(t)
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	names := []string{"a.b c", "*", ">", "_reflections", "x-abc", "a/b", "日本語", "a\x00b", "bad \xff", strings.Repeat("long ", 200), "s", "S"}
	for i, name := range names {
		h.asks(name, fmt.Sprint("I am in ", i))
	}
	for i, name := range names {
		e := h.asks(name, "where am I?")
		own := fmt.Sprint("I am in ", i)
		if got := turns(m.last()); len(got) != 2 || got[0] != own || e.Turn != 2 {
			t.Errorf("session %.20q: got turn %d after %.60q, want %.60q", name, e.Turn, got, own)
		}
	}
}

func TestWhatIsForEvaluationIsNotRemembered(t *testing.T) {
	t.Parallel()
	h := build(t)
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	h.asks("s", "learn this1")
	h.asks("s", "measure this2", func(q *events.Task) { q.Purpose = events.Evaluate })
	if e := h.asks("s", "and this3"); e.Turn != 2 || !slices.Equal(turns(m.last()), []string{"learn this1", "answer to this1"}) {
		t.Errorf("got turn %d after %q, want nothing of the evaluation", e.Turn, turns(m.last()))
	}
}

func TestAClientCountsItsTurnsItself(t *testing.T) {
	t.Parallel()
	h := build(t)
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	for _, n := range []int{7, 3, 5} {
		if e := h.asks("s", fmt.Sprint("number ", n), func(q *events.Task) { q.Turn = n }); e.Turn != n {
			t.Errorf("got turn %d, want %d", e.Turn, n)
		}
	}
	if e := h.asks("s", "next"); e.Turn != 8 || !slices.Equal(turns(m.last()), []string{"number 3", "answer to 3", "number 5", "answer to 5", "number 7", "answer to 7"}) {
		t.Errorf("got turn %d after %q", e.Turn, turns(m.last()))
	}
	if e := h.asks("", "alone"); e.Turn != 1 {
		t.Errorf("without a session: got turn %d", e.Turn)
	}
}

func TestRecentReflectionsAreShown(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	d := h.desk(nil, Config{}, brisk)
	for n := range 5 {
		h.note(d, "", fmt.Sprintf("of the book %d", n+1))
	}
	h.note(d, "s", "of this session")
	for n := range 4 {
		h.note(d, "other", fmt.Sprintf("of another %d", n+1))
	}
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	h.asks("s", "what now?")
	got := text(m.last())
	for insight, want := range map[string]bool{
		"of this session": true, "of another 4": true, "of another 3": true, "of another 2": true, "of another 1": false, "of the book": false,
	} {
		if strings.Contains(got, insight) != want {
			t.Errorf("%q in the prompt: got %v, want %v", insight, !want, want)
		}
	}
	h.asks("s", "what now, measured?", func(q *events.Task) { q.Playbook = new(uint64(1)) })
	if got := text(m.last()); strings.Contains(got, "of this session") || strings.Contains(got, "of another") || !strings.Contains(got, "advice 1") {
		t.Errorf("got %q, want no reflections in a measurement", got)
	}
	r := h.context(d, &events.ContextRequest{Query: "?", DryRun: true})
	if got := text(r.Messages); strings.Contains(got, "of this session") || !strings.Contains(got, "of another 4") {
		t.Errorf("got %q, want the book's reflections alone", got)
	}
}

func TestATornWindowIsPassedOver(t *testing.T) {
	t.Parallel()
	h := build(t)
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	h.asks("s", "before1")
	h.place(events.BucketWindow, events.SessionKey("b", "s"), []byte("\xc1"))
	h.place(events.BucketWindow, events.MarksKey("b", "s"), []byte("\xc1"))
	h.place(events.BucketWindow, events.NotesKey("b", ""), []byte("\xc1"))
	e := h.asks("s", "after2")
	if !slices.Equal(turns(m.last()), []string{"before1", "answer to before1"}) || e.Turn != 2 {
		t.Errorf("got turn %d after %q, want what can be read", e.Turn, turns(m.last()))
	}
	missed := e.Manifest.Degraded
	if !says(missed, "session: 1 of its interactions could not be read") || !says(missed, "session: its marks: ") || !says(missed, "reflections: 1 could not be read") {
		t.Errorf("got %q, want what could not be read", missed)
	}
}

// TestWithoutWindowsThereAreStillAnswers: somebody has deleted the bucket.
func TestWithoutWindowsThereAreStillAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	m := new(talker)
	h.hire(m, nil, Config{}, brisk)
	h.asks("s", "before")
	d := h.desk(nil, Config{}, brisk)
	h.lose(events.BucketWindow)
	h.lose(events.BucketContexts)
	for range 2 {
		e := h.asks("s", "after")
		if e.Answer != "answer to after" || !says(e.Manifest.Degraded, "session: ") || !says(e.Manifest.Degraded, "reflections: ") {
			t.Errorf("got %q, %q; want an answer that says what it did without", e.Answer, e.Manifest.Degraded)
		}
	}
	reply := h.context(d, &events.ContextRequest{Session: "s", Query: "?"})
	if reply.ID != "" || !says(reply.Manifest.Degraded, "context: could not be kept") {
		t.Errorf("got id %q, %q; want a context that says it was not kept", reply.ID, reply.Manifest.Degraded)
	}
	stored, err := d.Report(t.Context(), &events.Report{Book: "b", Session: "s", ContextID: events.NewID(), Question: "?", Answer: "!"})
	if err != nil || !says(stored.Degraded, "context_id: ") || !says(stored.Degraded, "not in the session's window") {
		t.Errorf("got %+v, %v; want it stored", stored, err)
	}
}

func TestAMinimumVersionIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	m := new(talker)
	patient := brisk
	patient.version = 10 * time.Second
	h.hire(m, nil, Config{}, patient)
	h.asks("", "warm up")
	q := task("b", "with the second version?")
	q.MinVersion = 2
	answered := make(chan *events.Execution)
	go func() {
		defer close(answered)
		e, _ := h.answer(q)
		answered <- e
	}()
	h.until("the task is taken", func() bool {
		lag, err := h.conn.Lag(t.Context(), events.RoleGenerator)
		return err == nil && lag.InFlight == 1
	})
	h.learn("b", bullet(2, 0)...)
	if e := <-answered; e == nil || e.Version != 2 || len(e.Manifest.Degraded) > 0 {
		t.Errorf("got %+v, want an answer with version 2", e)
	}

	d := h.desk(nil, Config{}, brisk)
	reply := h.context(d, &events.ContextRequest{Query: "?", MinVersion: 9, DryRun: true})
	if !reply.Stale || reply.Version != 2 || !says(reply.Manifest.Degraded, "version 9 was asked for, and has not come within 50ms") {
		t.Errorf("got version %d, stale %v, %q; want version 2, and that it is stale", reply.Version, reply.Stale, reply.Manifest.Degraded)
	}
	reply = h.context(d, &events.ContextRequest{Query: "?", MinVersion: 2, DryRun: true})
	if reply.Stale || len(reply.Manifest.Degraded) > 0 {
		t.Errorf("got stale %v, %q; want what was asked for", reply.Stale, reply.Manifest.Degraded)
	}
}
