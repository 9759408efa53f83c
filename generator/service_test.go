package generator

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/window"
	"debrief/generator/prompt/assembly"
	"debrief/playbook"
)

// readExecution returns the execution of a handle.
func (f *fixture) readExecution(handle events.Handle) *events.Execution {
	f.Helper()
	seq, matches, err := handle.Parse()
	f.ok(err)
	found, err := f.conn.Events.Find(f.Context(), events.StreamExecutions, seq, matches)
	f.ok(err)
	return found.(*events.Execution)
}

func isInvalid(err error) bool {
	var wrong interface{ Invalid() bool }
	return errors.As(err, &wrong) && wrong.Invalid()
}

func isNotFound(err error) bool {
	var gone interface{ NotFound() bool }
	return errors.As(err, &gone) && gone.NotFound()
}

// TestCallerStoresItsContext: a context that the caller stores is the same for its report.
func TestCallerStoresItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	request := &events.ContextRequest{Book: "b", Query: "what is due?", Advice: true, Unstored: true}
	reply := f.context(cb, request)
	if _, err := cb.windows.Context(t.Context(), reply.ID); !errors.Is(err, window.ErrContextNotFound) || reply.ID == "" {
		t.Errorf("before the caller stores context %q: got %v", reply.ID, err)
	}
	served, err := events.NewServedContext(request, reply)
	f.ok(err)
	f.ok(cb.windows.PutContext(t.Context(), served))
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", ContextID: reply.ID, Answer: "42"})
	f.ok(err)
	if e := f.readExecution(stored.Handle); len(stored.Warnings) > 0 || len(e.Shown) != 1 || e.Question != "what is due?" || !slices.Equal(e.PromptSHA256, chat.Digest(reply.Messages)) {
		t.Errorf("got warnings %v and execution %+v", stored.Warnings, e)
	}
}

// An agent that reports the context id need not repeat the data of the context.
func TestReportRefersToItsContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	f.commit("b", bullet(2, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "what is due?", Context: "an invoice", System: "You are a bookkeeper."})
	if len(reply.ID) != 22 || reply.Version != 2 || reply.Turn != 1 || !strings.HasPrefix(reply.Messages[0].Text, "You are a bookkeeper.\n\n") {
		t.Fatalf("got %+v", reply)
	}
	stored, err := cb.Report(t.Context(), &events.Report{
		Book: "b", ContextID: reply.ID, Answer: "42", Cited: []playbook.BulletID{"misc-00002", "misc-00077", "misc-00002"},
		Outcome: events.Outcome{Label: events.Success, Score: 1},
	})
	f.ok(err)
	if stored.Duplicate || len(stored.Warnings) > 0 {
		t.Errorf("got %+v, want it stored without warnings", stored)
	}
	e := f.readExecution(stored.Handle)
	if e.Session != "s" || e.Turn != 1 || e.Question != "what is due?" || e.Context != "an invoice" || e.Version != 2 || e.ContextID != reply.ID ||
		!slices.Equal(shown(e), []playbook.BulletID{"misc-00001", "misc-00002"}) || !slices.Equal(e.Cited, []playbook.BulletID{"misc-00002"}) ||
		hex.EncodeToString(e.PromptSHA256) != reply.SHA256 || e.Manifest == nil || e.Manifest.Tokens != reply.Manifest.Tokens ||
		e.Origin.Source != events.SourceAgent || !e.Started.Equal(reply.Manifest.At) {
		t.Errorf("got %+v, want the data of the context", e)
	}

	again, err := cb.Report(t.Context(), &events.Report{Book: "b", ContextID: reply.ID, Answer: "43"})
	f.ok(err)
	if !again.Duplicate || again.Handle != stored.Handle {
		t.Errorf("reported twice: got %+v, want the handle of the first", again)
	}
	if list := f.window(cb, "s"); len(list) != 1 || list[0].Answer != "42" || list[0].Execution != stored.Handle {
		t.Errorf("got %+v in the window, want the first report alone", list)
	}
	next := f.context(cb, &events.ContextRequest{Session: "s", Query: "and tomorrow?"})
	if got := turns(next.Messages); next.Turn != 2 || !slices.Equal(got, []string{"an invoice\n\nwhat is due?", "42"}) {
		t.Errorf("got turn %d after %q", next.Turn, got)
	}
}

func TestReportWithoutContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	others := f.context(cb, &events.ContextRequest{Book: "other", Query: "?"}).ID
	torn := events.NewID()
	f.putRaw(events.BucketContexts, string(torn), []byte("\xc1"))
	unknown := events.NewID()
	for n, test := range []struct {
		id   events.ID
		says string
	}{
		{"", "context_id: empty, so the shown bullets are unknown"},
		{unknown, fmt.Sprintf("context_id: %q not found: unknown or expired", unknown)},
		{"*.>", `context_id: "*.>" not found`},
		{others, fmt.Sprintf(`context_id: %q belongs to playbook "other"`, others)},
		{torn, "context_id: read context"},
	} {
		stored, err := cb.Report(t.Context(), &events.Report{
			Book: "b", Session: "s", ContextID: test.id, Question: fmt.Sprint("number ", n), Answer: "!", Cited: []playbook.BulletID{"misc-00001"},
		})
		if err != nil || !containsAll(stored.Warnings, test.says, "receive no votes") {
			t.Errorf("context %q: got %+v, %v, want %q", test.id, stored, err, test.says)
			continue
		}
		e := f.readExecution(stored.Handle)
		if len(e.Shown)+len(e.Cited) > 0 || e.Manifest != nil || e.Version != 0 || e.Outcome.Label != events.Unknown || e.Turn != n+1 {
			t.Errorf("context %q: got %+v, want no unknown data, and turn %d", test.id, e, n+1)
		}
	}
	if list := f.window(cb, "s"); len(list) != 5 || list[4].Question != "number 4" {
		t.Errorf("got %d in the window", len(list))
	}
}

// A run of an agent whose clock is ahead began at its report at the latest. Negative numbers would lower the sums of the playbook.
func TestReportWithImpossibleNumbers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	stored, err := cb.Report(t.Context(), &events.Report{Question: "?", Answer: "!", Started: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Usage: chat.Usage{InputTokens: -4, OutputTokens: 5}})
	if err != nil {
		t.Fatal(err)
	}
	if e := f.readExecution(stored.Handle); e.Started.After(time.Now()) || e.Usage != (chat.Usage{OutputTokens: 5}) {
		t.Errorf("got the start %s and %+v, want no future time and no negative number", e.Started, e.Usage)
	}
}

// A report without a book belongs to the book of its context, or to the default book without a context.
func TestReportWithoutBook(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("support", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	id := f.context(cb, &events.ContextRequest{Book: "support", Query: "?"}).ID
	for _, test := range []struct {
		report events.Report
		book   playbook.Book
		shown  int
	}{
		{events.Report{ContextID: id, Answer: "!"}, "support", 1},
		{events.Report{ContextID: id, RunID: "t", Question: "?", Answer: "!"}, "support", 1},
		{events.Report{Question: "?", Answer: "!"}, events.DefaultBook, 0},
		{events.Report{ContextID: events.NewID(), Question: "?", Answer: "!"}, events.DefaultBook, 0},
	} {
		stored, err := cb.Report(t.Context(), &test.report)
		f.ok(err)
		if e := f.readExecution(stored.Handle); e.Book != test.book || len(e.Shown) != test.shown {
			t.Errorf("%+v: got playbook %q with %d bullets shown, want %q with %d", test.report, e.Book, len(e.Shown), test.book, test.shown)
		}
	}
	torn := events.NewID()
	f.putRaw(events.BucketContexts, string(torn), []byte("\xc1"))
	if _, err := cb.Report(t.Context(), &events.Report{ContextID: torn, Question: "?", Answer: "!"}); err == nil {
		t.Error("unreadable context: got no error, although its playbook is unknown")
	}
}

// The shown bullets are known from the context, but the turn only from the report.
func TestReportOfAnotherSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	for n := range 3 {
		_, err := cb.Report(t.Context(), &events.Report{Book: "b", Session: "there", Question: fmt.Sprint("number ", n), Answer: "!"})
		f.ok(err)
	}
	id := f.context(cb, &events.ContextRequest{Session: "here", Query: "?"}).ID
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", Session: "there", ContextID: id, Answer: "!"})
	f.ok(err)
	e := f.readExecution(stored.Handle)
	if !containsAll(stored.Warnings, `session: reported "there", but the context belongs to "here"`) || e.Turn != 4 || e.Session != "there" || len(e.Shown) != 1 {
		t.Errorf("got %q, %+v", stored.Warnings, e)
	}
}

// The duplicate window of the server has passed.
func TestLateDuplicateReportIsNotInWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	e, first := f.storeOldExecution("s", "first?", "aye", func(e *events.Execution) { e.RunID, e.ID, e.Turn = "t", events.ExecutionID("b", "", "t", 0), 1 })
	f.putWindow(e, first)
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", Session: "s", RunID: "t", Question: "first?", Answer: "nay"})
	f.ok(err)
	if n := f.messages("KV_" + events.BucketWindow); n != 1 || f.window(cb, "s")[0].Answer != "aye" {
		t.Errorf("stored as %s, then as %+v: got %d in the window, want the first", first.Handle, stored, n)
	}
}

// The window stores as many of the last steps as fit into a value.
func TestLongRunIsInWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	long := events.Step{Speaker: chat.Assistant, Text: "I look."}
	for range 5 {
		long.Calls = append(long.Calls, events.ToolCall{Tool: "read_file", Arguments: "{}", Output: strings.Repeat("日本", 1200)})
	}
	steps := slices.Repeat([]events.Step{long}, 66)
	steps[65] = events.Step{Speaker: chat.Assistant, Text: "the last step"}
	id := f.context(cb, &events.ContextRequest{Session: "s", Query: "?"}).ID
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", ContextID: id, Steps: steps, Answer: "!"})
	if err != nil || len(stored.Warnings) > 0 {
		t.Fatalf("got %+v, %v", stored, err)
	}
	list := f.window(cb, "s")
	if len(list) != 1 || len(list[0].Steps) < 3 || list[0].Steps[len(list[0].Steps)-1].Text != "the last step" {
		t.Fatalf("got %+v, want the last steps", list)
	}
	if again := events.NewInteraction(stored.Handle, f.readExecution(stored.Handle)); len(again.Steps) != len(list[0].Steps) {
		t.Errorf("got %d steps, then %d", len(list[0].Steps), len(again.Steps))
	}
}

// Advice contains no history of the session, and the report of its execution has the shown bullets.
func TestAdvice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	if reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "what is due?", Advice: true}); len(reply.Messages) != 0 || reply.ID == "" {
		t.Errorf("without bullets: got %+v", reply)
	}
	f.commit("b", bullet(1, 0)...)
	e, r := f.storeExecution("s", "what was due?", "41")
	f.ok(cb.addToWindow(t.Context(), e, r))
	f.waitRead(cb, r)
	reply := f.context(cb, &events.ContextRequest{Session: "s", Query: "what is due?", Advice: true, MinVersion: 1})
	if len(reply.Messages) != 1 || reply.Messages[0].Speaker != chat.User || !strings.HasPrefix(reply.Messages[0].Text, "<playbook>\n"+chat.PromptAdvice) ||
		!strings.Contains(reply.Messages[0].Text, "[misc-00001] advice 1") || strings.Contains(reply.Messages[0].Text, "due") {
		t.Fatalf("got %+v", reply)
	}
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", ContextID: reply.ID, Answer: "42"})
	f.ok(err)
	if e := f.readExecution(stored.Handle); !slices.Equal(shown(e), []playbook.BulletID{"misc-00001"}) || e.Session != "s" {
		t.Errorf("got %+v", e)
	}
	if r := f.rebuild(cb, stored.Handle); !r.Verified {
		t.Errorf("got %+v, want the same message", r)
	}
}

func TestReportForEvaluationIsNotInWindow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	stored, err := cb.Report(t.Context(), &events.Report{Book: "b", Session: "s", Question: "?", Answer: "!", Purpose: events.Evaluate})
	f.ok(err)
	if e := f.readExecution(stored.Handle); e.Purpose != events.Evaluate {
		t.Errorf("got %+v", e)
	}
	if list := f.window(cb, "s"); len(list) > 0 {
		t.Errorf("got %d in the window", len(list))
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	r := &events.ContextRequest{Session: "s", Query: "?", DryRun: true}
	if reply := f.context(cb, r); reply.ID != "" || len(reply.Messages) != 2 {
		t.Errorf("got %+v", reply)
	}
	if n := f.messages("KV_" + events.BucketContexts); n != 0 {
		t.Errorf("%d contexts are stored", n)
	}
	r.DryRun = false
	if reply := f.context(cb, r); reply.ID == "" || f.messages("KV_"+events.BucketContexts) != 1 {
		t.Errorf("got %+v, want it stored", reply)
	}
}

// messages returns the number of messages in a stream.
func (f *fixture) messages(stream string) uint64 {
	f.Helper()
	s, err := f.conn.JetStream().Stream(f.Context(), stream)
	f.ok(err)
	return s.CachedInfo().State.Msgs
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	_, r := f.storeExecution("s", "?", "!")
	bad := events.Outcome{Label: events.Failure, Feedback: "it is late"}
	id := events.NewID()
	stored, err := cb.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", ID: id, Execution: r.Handle, Outcome: bad})
	f.ok(err)
	again, err := cb.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", ID: id, Execution: r.Handle, Outcome: bad})
	f.ok(err)
	if stored.Duplicate || !again.Duplicate || again.Handle != stored.Handle {
		t.Errorf("got %+v, then %+v; want the same feedback", stored, again)
	}
	if _, err := cb.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", Execution: r.Handle, Target: "43"}); err != nil {
		t.Errorf("a target alone: %v", err)
	}
	for why, test := range map[string]struct {
		r                 events.FeedbackRequest
		invalid, notFound bool
		says              string
	}{
		"invalid handle":       {events.FeedbackRequest{Book: "b", Execution: "17", Outcome: bad}, true, false, "handle"},
		"empty feedback":       {events.FeedbackRequest{Book: "b", Execution: r.Handle}, true, false, "outcome.label"},
		"unknown label":        {events.FeedbackRequest{Book: "b", Execution: r.Handle, Outcome: events.Outcome{Label: "meh"}}, true, false, "outcome.label"},
		"id too long":          {events.FeedbackRequest{Book: "b", ID: events.ID(strings.Repeat("x", 257)), Execution: r.Handle, Outcome: bad}, true, false, "id: "},
		"no book":              {events.FeedbackRequest{Execution: r.Handle, Outcome: bad}, true, false, "book"},
		"unknown execution":    {events.FeedbackRequest{Book: "b", Execution: "999-00000000", Outcome: bad}, false, true, "999-00000000"},
		"other id at sequence": {events.FeedbackRequest{Book: "b", Execution: "1-00000000", Outcome: bad}, false, true, "1-00000000"},
		"other playbook":       {events.FeedbackRequest{Book: "c", Execution: r.Handle, Outcome: bad}, false, true, `"c"`},
		"feedback on feedback": {events.FeedbackRequest{Book: "b", Execution: stored.Handle, Outcome: bad}, false, true, "feedback"},
	} {
		got, err := cb.Feedback(t.Context(), &test.r)
		if err == nil || isInvalid(err) != test.invalid || isNotFound(err) != test.notFound || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %+v, %v; want %q", why, got, err, test.says)
		}
	}
}

func TestInvalidRequestsNameTheField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	for says, r := range map[string]events.ContextRequest{
		"query":       {Book: "b", Query: " \n"},
		`book "a b"`:  {Book: "a b", Query: "?"},
		"limit":       {Book: "b", Query: "?", Limit: -1},
		"window":      {Book: "b", Query: "?", Window: "21"},
		"task":        {Book: "b", Query: "?", Task: "cooking"},
		"min_version": {Book: "b", Query: "?", Playbook: new(uint64(1)), MinVersion: 2},

		"context: must be empty": {Book: "b", Query: "?", Advice: true, Context: "x"},
		"system: must be empty":  {Book: "b", Query: "?", Advice: true, System: "x"},
		"steps: must be empty":   {Book: "b", Query: "?", Advice: true, Steps: []events.Step{{Text: "x"}}},
		"window: must be empty":  {Book: "b", Query: "?", Advice: true, Window: "none"},
	} {
		if reply, err := cb.Context(t.Context(), &r); !isInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: got %+v, %v; want %q", r, reply, err, says)
		}
	}
	var small *assembly.LimitError
	if _, err := cb.Context(t.Context(), &events.ContextRequest{Book: "b", Query: "?", Limit: 10}); !isInvalid(err) || !errors.As(err, &small) || small.Limit != 10 {
		t.Errorf("a limit without room: got %v", err)
	}
	var unknown *deltalog.VersionError
	if _, err := cb.Context(t.Context(), &events.ContextRequest{Book: "b", Query: "?", Playbook: new(uint64(7))}); !isNotFound(err) || !errors.As(err, &unknown) || *unknown != (deltalog.VersionError{Book: "b", Version: 7, Newest: 1}) {
		t.Errorf("unknown version: got %v", err)
	}
	for says, r := range map[string]events.Report{
		"question":      {Book: "b", Answer: "!"},
		"outcome.score": {Book: "b", Question: "?", Outcome: events.Outcome{Label: events.Success, Score: 2}},
		"outcome.label": {Book: "b", Question: "?", Outcome: events.Outcome{Label: "meh"}},
		"purpose":       {Book: "b", Question: "?", Purpose: "fun"},
		"run_id":        {Book: "b", Question: "?", RunID: strings.Repeat("x", 300)},
		"context_id":    {Book: "b", Question: "?", ContextID: events.ID(strings.Repeat("x", 1000))},
	} {
		if stored, err := cb.Report(t.Context(), &r); !isInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %+v, %v; want %q", stored, err, says)
		}
	}
	if n := f.messages(events.StreamExecutions); n != 0 {
		t.Errorf("%d executions are stored after rejected reports", n)
	}
}

// Large, empty or binary input is served, or rejected with a reason.
func TestRequestsOfAnySize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	var steps []events.Step
	for n := range 5000 {
		steps = append(steps, events.Step{
			Speaker: chat.Assistant, Text: "I look it up.",
			Calls: []events.ToolCall{{Tool: "read_file", Arguments: fmt.Sprintf(`{"path":"/src/%d.go"}`, n), Output: strings.Repeat("package x ", 20)}},
		})
	}
	odd := "bad \xff\xfe text \x00 with NUL"
	for name, r := range map[string]events.ContextRequest{
		"a query of 1 MB":        {Query: strings.Repeat("why? ", 200_000)},
		"one word of 1 MB":       {Query: strings.Repeat("x", 1_000_000)},
		"a context of 2 MB":      {Query: "why?", Context: strings.Repeat("because ", 250_000)},
		"a system text of 50 KB": {Query: "why?", System: strings.Repeat("obey. ", 8000)},
		"thousands of steps":     {Query: "why?", Steps: steps},
		"empty steps":            {Query: "why?", Steps: make([]events.Step, 5000)},
		"empty calls":            {Query: "why?", Steps: []events.Step{{Calls: make([]events.ToolCall, 5000)}}},
		"no text":                {Query: odd, Context: odd, System: odd, Steps: []events.Step{{Speaker: odd, Text: odd, Calls: []events.ToolCall{{Tool: odd, Arguments: odd, Output: odd}}}}},
		"huge limit":             {Query: "why?", Limit: 1 << 60},
		"a long session name":    {Query: "why?", Session: strings.Repeat("s", events.MaxName)},
		"huge version":           {Query: "why?", MinVersion: 1<<64 - 1},
		"an empty book":          {Book: "nobody-wrote-it", Query: "why?"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			if r.Book == "" {
				r.Book = "b"
			}
			reply, err := cb.Context(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			if reply.Manifest.Tokens > reply.Manifest.Limit || reply.Manifest.Tokens == 0 {
				t.Errorf("got %d tokens of %d", reply.Manifest.Tokens, reply.Manifest.Limit)
			}
			if (reply.ID == "") != containsAll(reply.Manifest.Warnings, "context: not stored") {
				t.Errorf("got id %q, %q", reply.ID, reply.Manifest.Warnings)
			}
			stored, err := cb.Report(t.Context(), &events.Report{
				Book: r.Book, ContextID: reply.ID, Session: r.Session, Question: r.Query, Context: r.Context, Steps: r.Steps, Answer: odd,
			})
			if err != nil {
				t.Fatal(err)
			}
			rebuilt, err := cb.Rebuild(t.Context(), stored.Handle)
			if reply.ID != "" && (err != nil || !rebuilt.Verified) {
				t.Errorf("rebuilt: got %+v, %v", rebuilt, err)
			}
			t.Logf("%s, stored: %q", time.Since(begun).Round(time.Millisecond), stored.Warnings)
		})
	}
	many := make([]events.Step, 200_000)
	for i := range many {
		many[i].Speaker = chat.User
	}
	if stored, err := cb.Report(t.Context(), &events.Report{Book: "b", Question: "?", Steps: many}); err != nil && !isInvalid(err) {
		t.Errorf("too many steps: got %+v, %v", stored, err)
	}
}

// The error must not be marked as an invalid request, because a retry can succeed.
func TestUnavailableServerIsNotAnInvalidRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	f.context(cb, &events.ContextRequest{Query: "open the book", DryRun: true})
	f.conn.NATS().Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := cb.Report(ctx, &events.Report{Book: "b", Question: "?", Answer: "!"}); !bus.Unreachable(err) {
		t.Errorf("report: got %v", err)
	}
	if _, err := cb.Feedback(ctx, &events.FeedbackRequest{Book: "b", Execution: "1-00000000", Target: "42"}); !bus.Unreachable(err) {
		t.Errorf("feedback: got %v", err)
	}
	reply, err := cb.Context(ctx, &events.ContextRequest{Book: "b", Session: "s", Query: "?"})
	if err != nil || reply.ID != "" || !containsAll(reply.Manifest.Warnings, "session: ") {
		t.Errorf("context of a loaded playbook: got %+v, %v", reply, err)
	}
	if _, err := cb.Context(ctx, &events.ContextRequest{Book: "c", Query: "?"}); !bus.Unreachable(err) {
		t.Errorf("context of a playbook that is not loaded: got %v", err)
	}
}
