package generator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/streams"
	"debrief/generator/prompt/assembly"
)

// turns returns the texts of the earlier turns, without system message and query.
func turns(m []chat.Message) (texts []string) {
	for _, x := range m[1 : len(m)-1] {
		texts = append(texts, x.Text)
	}
	return texts
}

// Two processes with separate connections answer. The next task is submitted as soon as an answer arrives.
func TestSessionAcrossTwoGenerators(t *testing.T) {
	t.Parallel()
	a, b := newFixturePair(t)
	m := [2]*echoModel{{}, {}}
	a.startWith(m[0], nil, Config{Slots: 1}, testTimeouts)
	b.startWith(m[1], nil, Config{Slots: 1}, testTimeouts)
	a.waitFor("both pull", func() bool {
		c, err := a.conn.JetStream().Consumer(t.Context(), events.StreamTasks, events.RoleGenerator)
		return err == nil && c.CachedInfo().NumWaiting == 2
	})
	var want []string
	for n := range 40 {
		from := []*fixture{a, b}[n%2]
		question := fmt.Sprintf("question q%d", n)
		e := from.answerInSession("s", question)
		if e.Turn != n+1 {
			t.Errorf("got turn %d, want %d", e.Turn, n+1)
		}
		var got []string
		for i := range m { // the model with the longest chat answered last
			m[i].mu.Lock()
			if k := len(m[i].chats); k > 0 && strings.Contains(chatText(m[i].chats[k-1]), question+"\n") {
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
		t.Errorf("one of two generators answered all tasks: %d and %d", len(m[0].chats), len(m[1].chats))
	}
	cb := a.newBuilder(nil, Config{}, testTimeouts)
	for i, x := range a.window(cb, "s") {
		if want := i + 40 - streams.WindowHistory + 1; x.Turn != want {
			t.Errorf("got turn %d at %d of the window, want %d", x.Turn, i, want)
		}
	}
}

// A generator crashed after it had stored an execution. The retry does not see that execution and adds no second
// turn. Later turns see the execution that was stored first.
func TestRedeliveredTask(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		window bool // the execution is in the window before the crash
		late   bool // the duplicate window of the server has passed
	}{
		"before its window was written": {},
		"before its ack":                {window: true},
		"after a long time":             {window: true, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cb := f.newBuilder(nil, Config{}, testTimeouts)
			q := task("b", "what came out?")
			q.Session = "s"
			own := func(e *events.Execution) {
				e.RunID, e.ID, e.Turn = q.ID, events.ExecutionID("b", "", q.ID, 0), 21
			}
			var handle events.Handle
			for n := range streams.WindowHistory - 1 {
				e, r := f.storeExecution("s", fmt.Sprint("older ", n+1), "aye", func(e *events.Execution) { e.Turn = 10 * (n + 1) })
				f.ok(cb.addToWindow(t.Context(), e, r))
				if n != 1 {
					continue
				}
				store := f.storeExecution
				if test.late {
					store = f.storeOldExecution
				}
				first, r := store("s", q.Question, "the first answer", own)
				if handle = r.Handle; test.window {
					f.putWindow(first, r)
					f.ok(cb.windows.Mark(t.Context(), "b", "", "s", events.MarkedInteraction{Mark: events.Star, Interaction: *events.NewInteraction(handle, first)}))
				}
			}
			m := new(echoModel)
			f.startWith(m, nil, Config{Limits: assembly.Limits{Window: 20}}, testTimeouts)
			before := f.messages("KV_" + events.BucketWindow)
			e, refused := f.answer(q)
			if refused != "" {
				t.Fatal(refused)
			}
			if e.Answer != "the first answer" != test.late {
				t.Errorf("got the answer %q, want the execution that was stored first if its id is known", e.Answer)
			}
			if saw := chatText(m.last()); strings.Contains(saw, "the first answer") || strings.Count(saw, q.Question) != 1 || !strings.Contains(saw, "older 1") {
				t.Errorf("got %q, want the other turns without the earlier attempt", saw)
			}
			list := f.window(cb, "s")
			at := slices.IndexFunc(list, func(i *events.Interaction) bool { return i.ID == e.ID })
			if at < 0 || list[at].Answer != "the first answer" || list[at].Execution != handle || list[at].Turn != 21 {
				t.Fatalf("got %+v at %d, want the execution that was stored first", list[max(at, 0)], at)
			}
			if test.window && (e.Turn != 21 || at != 2 || f.messages("KV_"+events.BucketWindow) != before) {
				t.Errorf("got turn %d at %d of %d, want its own position and no new entry", e.Turn, at, len(list))
			}
			if list[0].Question != "older 1" {
				t.Errorf("a turn was evicted: the window begins with %q", list[0].Question)
			}
		})
	}
}

// The task and the report are submitted again after the turn has left the window.
func TestResubmittedTurnIsNotAdded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	f.shortenDuplicateWindow()
	q := task("b", "the first question")
	q.Session = "s"
	if _, refused := f.answer(q); refused != "" {
		t.Fatal(refused)
	}
	report := &events.Report{Book: "b", Session: "s", RunID: "mine", Question: "the reported question", Answer: "aye"}
	first, err := cb.Report(t.Context(), report)
	f.ok(err)
	for n := range streams.WindowHistory {
		e, r := f.storeExecution("s", fmt.Sprint("later ", n), "aye", func(e *events.Execution) { e.Turn = n + 3 })
		f.ok(cb.addToWindow(t.Context(), e, r))
	}
	before := f.window(cb, "s")
	f.waitDuplicateWindow()
	again, refused := f.answer(q)
	if refused != "" {
		t.Fatal(refused)
	}
	stored, err := cb.Report(t.Context(), report)
	f.ok(err)
	if !stored.Duplicate || stored.Handle != first.Handle {
		t.Errorf("got %+v for a report that is stored as %s", stored, first.Handle)
	}
	after := f.window(cb, "s")
	if again.ID != events.ExecutionID("b", "", q.ID, 0) || len(after) != streams.WindowHistory || after[0].ID != before[0].ID || after[len(after)-1].ID != before[len(before)-1].ID {
		t.Errorf("got a window from %q to %q, want it unchanged", after[0].Question, after[len(after)-1].Question)
	}
}

func TestWindowSizes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	for n := range 25 {
		e, r := f.storeExecution("s", fmt.Sprintf("question q%d", n+1), "aye", func(e *events.Execution) { e.Turn = n + 1 })
		f.ok(cb.addToWindow(t.Context(), e, r))
	}
	for window, want := range map[events.Turns]int{"": 5, "1": 1, "3": 3, "10": 10, "20": 20, "none": 20, "adaptive": 5} {
		reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "what did we say of all of this?", Window: window, DryRun: true})
		asked := 0
		for _, text := range turns(reply.Messages) {
			if strings.HasPrefix(text, "question ") {
				asked++
			}
		}
		if asked != want || !strings.Contains(chatText(reply.Messages), "question q25\n") || reply.Turn != 26 {
			t.Errorf("window %q: got %d turns, and this one is %d; want %d and 26", window, asked, reply.Turn, want)
		}
	}
}

func TestSessionNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	names := []string{"a.b c", "*", ">", "_reflections", "x-abc", "a/b", "日本語", "a \u202e b", strings.Repeat("long ", 200), "s", "S"}
	for i, name := range names {
		f.answerInSession(name, fmt.Sprint("I am in ", i))
	}
	for i, name := range names {
		e := f.answerInSession(name, "where am I?")
		own := fmt.Sprint("I am in ", i)
		if got := turns(m.last()); len(got) != 2 || got[0] != own || e.Turn != 2 {
			t.Errorf("session %.20q: got turn %d after %.60q, want %.60q", name, e.Turn, got, own)
		}
	}
}

func TestEvaluationIsNotInWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	f.answerInSession("s", "learn this1")
	f.answerInSession("s", "measure this2", func(q *events.Task) { q.Purpose = events.Evaluate })
	if e := f.answerInSession("s", "and this3"); e.Turn != 2 || !slices.Equal(turns(m.last()), []string{"learn this1", "answer to this1"}) {
		t.Errorf("got turn %d after %q, want nothing of the evaluation", e.Turn, turns(m.last()))
	}
}

func TestClientMaySetTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	for _, n := range []int{7, 3, 5} {
		if e := f.answerInSession("s", fmt.Sprint("number ", n), func(q *events.Task) { q.Turn = n }); e.Turn != n {
			t.Errorf("got turn %d, want %d", e.Turn, n)
		}
	}
	if e := f.answerInSession("s", "next"); e.Turn != 8 || !slices.Equal(turns(m.last()), []string{"number 3", "answer to 3", "number 5", "answer to 5", "number 7", "answer to 7"}) {
		t.Errorf("got turn %d after %q", e.Turn, turns(m.last()))
	}
	if e := f.answerInSession("", "alone"); e.Turn != 1 {
		t.Errorf("without a session: got turn %d", e.Turn)
	}
}

// A prompt shows the notes of its session, and of other sessions only the insights from similar questions.
func TestRecentReflectionsAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	const ships = "How many masts does the ship have?"
	f.storeNote(cb, "", ships, "of the book")
	for n := range 2 {
		f.storeNote(cb, "s", "What is the capital of France?", fmt.Sprintf("of this session %d", n+1))
	}
	f.storeNote(cb, "other", ships, "of an old ship")
	f.storeNote(cb, "other", "Please refund the flight to my card.", "of a flight")
	f.storeNote(cb, "other", "How many masts has the small ship?", "of another ship")
	f.storeNote(cb, "", ships, "of a ship without a session")
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	f.answerInSession("s", ships)
	got := chatText(m.last())
	for text, want := range map[string]bool{
		"insight: of this session 1": true, "insight: of this session 2": true, "4.30 for of this session 2": true, "1.20 was wrong for of this session 2": true,
		"insight: of another ship": true, "insight: of a ship without a session": true, "for of another ship": false, "for of a ship": false,
		"insight: of an old ship": true, "of a flight": false, "of the book": false, // the newest three that are relevant
	} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q in the prompt: got %v, want %v", text, !want, want)
		}
	}
	f.answerInSession("s", ships+" Measured?", func(q *events.Task) { q.Playbook = new(uint64(1)) })
	if got := chatText(m.last()); strings.Contains(got, "insight: ") || !strings.Contains(got, "advice 1") {
		t.Errorf("got %q, want no reflections with a pinned version", got)
	}
	r := f.context(cb, &events.ContextRequest{Query: ships, DryRun: true})
	if got := chatText(r.Messages); strings.Contains(got, "of this session") || !strings.Contains(got, "insight: of another ship") || strings.Contains(got, "4.30") {
		t.Errorf("got %q, want only insights without a session", got)
	}
}

func TestDamagedWindowEntryIsSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	f.answerInSession("s", "before1")
	f.putRaw(events.BucketWindow, events.SessionKey("b", "", "s"), []byte("\xc1"))
	f.putRaw(events.BucketState, events.MarksKey("b", "", "s"), []byte("\xc1"))
	f.putRaw(events.BucketWindow, events.BookNotesKey("b"), []byte("\xc1"))
	e := f.answerInSession("s", "after2")
	if !slices.Equal(turns(m.last()), []string{"before1", "answer to before1"}) || e.Turn != 2 {
		t.Errorf("got turn %d after %q, want the valid entries", e.Turn, turns(m.last()))
	}
	warns := e.Manifest.Warnings
	if !containsAll(warns, "session: 1 invalid interactions") || !containsAll(warns, "session: read marks: ") || !containsAll(warns, "reflections: 1 invalid entries") {
		t.Errorf("got %q, want warnings about invalid entries", warns)
	}
}

// The bucket of windows was deleted.
func TestMissingWindowBucket(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	f := newFixture(t)
	m := new(echoModel)
	f.startWith(m, nil, Config{}, testTimeouts)
	f.answerInSession("s", "before")
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.deleteBucket(events.BucketWindow)
	f.deleteBucket(events.BucketState)
	f.deleteBucket(events.BucketContexts)
	for range 2 {
		e := f.answerInSession("s", "after")
		if e.Answer != "answer to after" || !containsAll(e.Manifest.Warnings, "session: ") || !containsAll(e.Manifest.Warnings, "reflections: ") {
			t.Errorf("got %q, %q; want an answer with warnings", e.Answer, e.Manifest.Warnings)
		}
	}
	reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "?"})
	if reply.ID != "" || !containsAll(reply.Manifest.Warnings, "context: not stored") {
		t.Errorf("got id %q, %q; want a context with a warning that it is not stored", reply.ID, reply.Manifest.Warnings)
	}
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", Session: "s", ContextID: events.NewID(), Question: "?", Answer: "!"})
	if err != nil || !containsAll(stored.Warnings, "context_id: ", "not found") || !containsAll(stored.Warnings, "not added to the window") {
		t.Errorf("got %+v, %v; want it stored", stored, err)
	}
}

func TestMinVersionIsAwaited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	m := new(echoModel)
	patient := testTimeouts
	patient.version = 10 * time.Second
	f.startWith(m, nil, Config{}, patient)
	f.answerInSession("", "warm up")
	q := task("b", "with the second version?")
	q.MinVersion = 2
	answered := make(chan *events.Execution)
	go func() {
		defer close(answered)
		e, _ := f.answer(q)
		answered <- e
	}()
	f.waitFor("the task is taken", func() bool {
		lag, err := f.conn.Consumers.Lag(t.Context(), events.RoleGenerator)
		return err == nil && lag.InFlight == 1
	})
	f.commit("b", bullet(2, 0)...)
	if e := <-answered; e == nil || e.Version != 2 || len(e.Manifest.Warnings) > 0 {
		t.Errorf("got %+v, want an answer with version 2", e)
	}

	cb := f.newBuilder(nil, Config{}, testTimeouts)
	reply := f.context(cb, &events.ContextRequest{Query: "?", MinVersion: 9, DryRun: true})
	if !reply.Stale || reply.Version != 2 || !containsAll(reply.Manifest.Warnings, "version 9 requested, but not available within 1s") {
		t.Errorf("got version %d, stale %v, %q; want version 2, and stale", reply.Version, reply.Stale, reply.Manifest.Warnings)
	}
	reply = f.context(cb, &events.ContextRequest{Query: "?", MinVersion: 2, DryRun: true})
	if reply.Stale || len(reply.Manifest.Warnings) > 0 {
		t.Errorf("got stale %v, %q; want the requested version", reply.Stale, reply.Manifest.Warnings)
	}
}
