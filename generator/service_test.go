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
	"debrief/playbook"
)

// kept is the execution that a handle names.
func (h *house) kept(handle events.Handle) *events.Execution {
	h.Helper()
	seq, is, err := handle.Parse()
	h.ok(err)
	found, err := h.conn.Find(h.Context(), events.StreamExecutions, seq, is)
	h.ok(err)
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

// TestAReportIsTiedToItsContext: an agent that names the context it was given need say nothing else of it.
func TestAReportIsTiedToItsContext(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	h.learn("b", bullet(2, 0)...)
	d := h.desk(nil, Config{}, brisk)
	reply := h.context(d, &events.ContextRequest{Session: "s", Query: "what is due?", Context: "an invoice", System: "You are a bookkeeper."})
	if len(reply.ID) != 22 || reply.Version != 2 || reply.Turn != 1 || !strings.HasPrefix(reply.Messages[0].Text, "You are a bookkeeper.\n\n") {
		t.Fatalf("got %+v", reply)
	}
	stored, err := d.Report(t.Context(), &events.Report{
		Book: "b", ContextID: reply.ID, Answer: "42", Cited: []playbook.BulletID{"misc-00002", "misc-00077", "misc-00002"},
		Outcome: events.Outcome{Label: events.Success, Score: 1},
	})
	h.ok(err)
	if stored.Duplicate || len(stored.Degraded) > 0 {
		t.Errorf("got %+v, want it stored and nothing to remark", stored)
	}
	e := h.kept(stored.Handle)
	if e.Session != "s" || e.Turn != 1 || e.Question != "what is due?" || e.Context != "an invoice" || e.Version != 2 || e.ContextID != reply.ID ||
		!slices.Equal(shown(e), []playbook.BulletID{"misc-00001", "misc-00002"}) || !slices.Equal(e.Cited, []playbook.BulletID{"misc-00002"}) ||
		hex.EncodeToString(e.PromptSHA256) != reply.SHA256 || e.Manifest == nil || e.Manifest.Tokens != reply.Manifest.Tokens ||
		e.Origin.Source != SourceAgent || !e.Started.Equal(reply.Manifest.At) {
		t.Errorf("got %+v, want what the context says", e)
	}

	again, err := d.Report(t.Context(), &events.Report{Book: "b", ContextID: reply.ID, Answer: "43"})
	h.ok(err)
	if !again.Duplicate || again.Handle != stored.Handle {
		t.Errorf("reported twice: got %+v, want the handle of the first", again)
	}
	if list := h.window(d, "s"); len(list) != 1 || list[0].Answer != "42" || list[0].Execution != stored.Handle {
		t.Errorf("got %+v in the window, want the first report alone", list)
	}
	next := h.context(d, &events.ContextRequest{Session: "s", Query: "and tomorrow?"})
	if got := turns(next.Messages); next.Turn != 2 || !slices.Equal(got, []string{"an invoice\n\nwhat is due?", "42"}) {
		t.Errorf("got turn %d after %q", next.Turn, got)
	}
}

func TestAReportWithoutItsContextIsStoredAllTheSame(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	d := h.desk(nil, Config{}, brisk)
	others := h.context(d, &events.ContextRequest{Book: "other", Query: "?"}).ID
	torn := events.NewID()
	h.place(events.BucketContexts, string(torn), []byte("\xc1"))
	unknown := events.NewID()
	for n, test := range []struct {
		id   events.ID
		says string
	}{
		{"", "context_id: is empty, so nobody knows"},
		{unknown, fmt.Sprintf("context_id: %q is not known here, or not any more", unknown)},
		{"*.>", `context_id: "*.>" is not known here`},
		{others, fmt.Sprintf(`context_id: %q was for book "other"`, others)},
		{torn, "context_id: read context"},
	} {
		stored, err := d.Report(t.Context(), &events.Report{
			Book: "b", Session: "s", ContextID: test.id, Question: fmt.Sprint("number ", n), Answer: "!", Cited: []playbook.BulletID{"misc-00001"},
		})
		if err != nil || !says(stored.Degraded, test.says, "none is judged") {
			t.Errorf("context %q: got %+v, %v, want %q", test.id, stored, err, test.says)
			continue
		}
		e := h.kept(stored.Handle)
		if len(e.Shown)+len(e.Cited) > 0 || e.Manifest != nil || e.Version != 0 || e.Outcome.Label != events.Unknown || e.Turn != n+1 {
			t.Errorf("context %q: got %+v, want nothing that nobody knows, and turn %d", test.id, e, n+1)
		}
	}
	if list := h.window(d, "s"); len(list) != 5 || list[4].Question != "number 4" {
		t.Errorf("got %d in the window", len(list))
	}
}

// TestAReportOfAnotherSession: what was shown is known, and whose turn it is only the agent knows.
func TestAReportOfAnotherSession(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	d := h.desk(nil, Config{}, brisk)
	for n := range 3 {
		_, err := d.Report(t.Context(), &events.Report{Book: "b", Session: "there", Question: fmt.Sprint("number ", n), Answer: "!"})
		h.ok(err)
	}
	id := h.context(d, &events.ContextRequest{Session: "here", Query: "?"}).ID
	stored, err := d.Report(t.Context(), &events.Report{Book: "b", Session: "there", ContextID: id, Answer: "!"})
	h.ok(err)
	e := h.kept(stored.Handle)
	if !says(stored.Degraded, `session: "there" is reported, and the context was for "here"`) || e.Turn != 4 || e.Session != "there" || len(e.Shown) != 1 {
		t.Errorf("got %q, %+v", stored.Degraded, e)
	}
}

// TestALateSecondReportTakesNoPlaceInTheWindow: the server has forgotten its id.
func TestALateSecondReportTakesNoPlaceInTheWindow(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	e, first := h.happenedLongAgo("s", "first?", "aye", func(e *events.Execution) { e.TaskID, e.ID, e.Turn = "t", events.ExecutionID("b", "t", 0), 1 })
	h.wrote(e, first)
	stored, err := d.Report(t.Context(), &events.Report{Book: "b", Session: "s", TaskID: "t", Question: "first?", Answer: "nay"})
	h.ok(err)
	if n := h.messages("KV_" + events.BucketWindow); n != 1 || h.window(d, "s")[0].Answer != "aye" {
		t.Errorf("stored as %s, then as %+v: got %d in the window, want the first", first.Handle, stored, n)
	}
}

// TestARunOfAnyLengthIsInTheWindow: with its last steps, as many as a stored value has room for.
func TestARunOfAnyLengthIsInTheWindow(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	long := events.Step{Speaker: chat.Assistant, Text: "I look."}
	for range 5 {
		long.Calls = append(long.Calls, events.ToolCall{Tool: "read_file", Arguments: "{}", Output: strings.Repeat("日本", 1200)})
	}
	steps := slices.Repeat([]events.Step{long}, 66)
	steps[65] = events.Step{Speaker: chat.Assistant, Text: "the last step"}
	id := h.context(d, &events.ContextRequest{Session: "s", Query: "?"}).ID
	stored, err := d.Report(t.Context(), &events.Report{Book: "b", ContextID: id, Steps: steps, Answer: "!"})
	if err != nil || len(stored.Degraded) > 0 {
		t.Fatalf("got %+v, %v", stored, err)
	}
	list := h.window(d, "s")
	if len(list) != 1 || len(list[0].Steps) < 3 || list[0].Steps[len(list[0].Steps)-1].Text != "the last step" {
		t.Fatalf("got %+v, want the last steps", list)
	}
	if again := events.NewInteraction(stored.Handle, h.kept(stored.Handle)); len(again.Steps) != len(list[0].Steps) {
		t.Errorf("got %d steps, then %d", len(list[0].Steps), len(again.Steps))
	}
}

func TestWhatIsReportedForEvaluationIsNotRemembered(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	stored, err := d.Report(t.Context(), &events.Report{Book: "b", Session: "s", Question: "?", Answer: "!", Purpose: events.Evaluate})
	h.ok(err)
	if e := h.kept(stored.Handle); e.Purpose != events.Evaluate {
		t.Errorf("got %+v", e)
	}
	if list := h.window(d, "s"); len(list) > 0 {
		t.Errorf("got %d in the window", len(list))
	}
}

func TestADryRunKeepsNothing(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	r := &events.ContextRequest{Session: "s", Query: "?", DryRun: true}
	if reply := h.context(d, r); reply.ID != "" || len(reply.Messages) != 2 {
		t.Errorf("got %+v", reply)
	}
	if n := h.messages("KV_" + events.BucketContexts); n != 0 {
		t.Errorf("%d contexts are kept", n)
	}
	r.DryRun = false
	if reply := h.context(d, r); reply.ID == "" || h.messages("KV_"+events.BucketContexts) != 1 {
		t.Errorf("got %+v, want it kept", reply)
	}
}

// messages counts what a stream holds.
func (h *house) messages(stream string) uint64 {
	h.Helper()
	s, err := h.conn.JetStream().Stream(h.Context(), stream)
	h.ok(err)
	return s.CachedInfo().State.Msgs
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	_, r := h.happened("s", "?", "!")
	bad := events.Outcome{Label: events.Failure, Feedback: "it is late"}
	id := events.NewID()
	stored, err := d.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", ID: id, Execution: r.Handle, Outcome: bad})
	h.ok(err)
	again, err := d.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", ID: id, Execution: r.Handle, Outcome: bad})
	h.ok(err)
	if stored.Duplicate || !again.Duplicate || again.Handle != stored.Handle {
		t.Errorf("got %+v, then %+v; want the same feedback", stored, again)
	}
	if _, err := d.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", Execution: r.Handle, Target: "43"}); err != nil {
		t.Errorf("a target alone: %v", err)
	}
	for why, test := range map[string]struct {
		r                 events.FeedbackRequest
		invalid, notFound bool
		says              string
	}{
		"no handle":            {events.FeedbackRequest{Book: "b", Execution: "17", Outcome: bad}, true, false, "handle"},
		"nothing to say":       {events.FeedbackRequest{Book: "b", Execution: r.Handle}, true, false, "outcome.label: is empty"},
		"an odd label":         {events.FeedbackRequest{Book: "b", Execution: r.Handle, Outcome: events.Outcome{Label: "meh"}}, true, false, "outcome.label"},
		"an odd id":            {events.FeedbackRequest{Book: "b", ID: "x", Execution: r.Handle, Outcome: bad}, true, false, "id: "},
		"no book":              {events.FeedbackRequest{Execution: r.Handle, Outcome: bad}, true, false, "book"},
		"an execution of none": {events.FeedbackRequest{Book: "b", Execution: "999-00000000", Outcome: bad}, false, true, "execution 999-00000000: is not stored"},
		"another at its place": {events.FeedbackRequest{Book: "b", Execution: "1-00000000", Outcome: bad}, false, true, "is not stored"},
		"another book's":       {events.FeedbackRequest{Book: "c", Execution: r.Handle, Outcome: bad}, false, true, `is not one of book "c"`},
		"feedback on feedback": {events.FeedbackRequest{Book: "b", Execution: stored.Handle, Outcome: bad}, false, true, "is a feedback"},
	} {
		got, err := d.Feedback(t.Context(), &test.r)
		if err == nil || isInvalid(err) != test.invalid || isNotFound(err) != test.notFound || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %+v, %v; want %q", why, got, err, test.says)
		}
	}
}

func TestRequestsThatCannotBeServedNameTheirField(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	d := h.desk(nil, Config{}, brisk)
	for says, r := range map[string]events.ContextRequest{
		"query: is empty":                      {Book: "b", Query: " \n"},
		`book "a b"`:                           {Book: "a b", Query: "?"},
		"limit: must be positive, got -1":      {Book: "b", Query: "?", Limit: -1},
		"limit: 10 tokens are too few":         {Book: "b", Query: "?", Limit: 10},
		"window: want 1 to 20":                 {Book: "b", Query: "?", Window: "21"},
		"task: want general, research":         {Book: "b", Query: "?", Task: "cooking"},
		"min_version: is 2, and playbook asks": {Book: "b", Query: "?", Playbook: new(uint64(1)), MinVersion: 2},
	} {
		if reply, err := d.Context(t.Context(), &r); !isInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: got %+v, %v; want %q", r, reply, err, says)
		}
	}
	if _, err := d.Context(t.Context(), &events.ContextRequest{Book: "b", Query: "?", Playbook: new(uint64(7))}); !isNotFound(err) || !strings.Contains(err.Error(), `playbook "b" has no version 7: its newest is 1`) {
		t.Errorf("a version that is not there: got %v", err)
	}
	for says, r := range map[string]events.Report{
		"question: is empty":         {Book: "b", Answer: "!"},
		"book":                       {Question: "?"},
		"outcome.score":              {Book: "b", Question: "?", Outcome: events.Outcome{Label: events.Success, Score: 2}},
		"outcome.label":              {Book: "b", Question: "?", Outcome: events.Outcome{Label: "meh"}},
		"purpose":                    {Book: "b", Question: "?", Purpose: "fun"},
		"task_id":                    {Book: "b", Question: "?", TaskID: strings.Repeat("x", 300)},
		"context_id: has 1000 bytes": {Book: "b", Question: "?", ContextID: events.ID(strings.Repeat("x", 1000))},
	} {
		if stored, err := d.Report(t.Context(), &r); !isInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %+v, %v; want %q", stored, err, says)
		}
	}
	if n := h.messages(events.StreamExecutions); n != 0 {
		t.Errorf("%d executions are stored of what was refused", n)
	}
}

// TestRequestsOfAnySize: what is large, empty or no text is served, or refused with a reason.
func TestRequestsOfAnySize(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
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
		"steps of nothing":       {Query: "why?", Steps: make([]events.Step, 5000)},
		"calls of nothing":       {Query: "why?", Steps: []events.Step{{Calls: make([]events.ToolCall, 5000)}}},
		"no text":                {Query: odd, Context: odd, System: odd, Session: odd, Steps: []events.Step{{Speaker: odd, Text: odd, Calls: []events.ToolCall{{Tool: odd, Arguments: odd, Output: odd}}}}},
		"a limit without end":    {Query: "why?", Limit: 1 << 60},
		"a session without end":  {Query: "why?", Session: strings.Repeat("s", 1_000_000)},
		"a version without end":  {Query: "why?", MinVersion: 1<<64 - 1},
		"an empty book":          {Book: "nobody-wrote-it", Query: "why?"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			if r.Book == "" {
				r.Book = "b"
			}
			reply, err := d.Context(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			if reply.Manifest.Tokens > reply.Manifest.Limit || reply.Manifest.Tokens == 0 {
				t.Errorf("got %d tokens of %d", reply.Manifest.Tokens, reply.Manifest.Limit)
			}
			if (reply.ID == "") != says(reply.Manifest.Degraded, "context: could not be kept") {
				t.Errorf("got id %q, %q", reply.ID, reply.Manifest.Degraded)
			}
			stored, err := d.Report(t.Context(), &events.Report{
				Book: r.Book, ContextID: reply.ID, Session: r.Session, Question: r.Query, Context: r.Context, Steps: r.Steps, Answer: odd,
			})
			if err != nil {
				t.Fatal(err)
			}
			rebuilt, err := d.Rebuild(t.Context(), stored.Handle)
			if reply.ID != "" && (err != nil || !rebuilt.Verified) {
				t.Errorf("rebuilt: got %+v, %v", rebuilt, err)
			}
			t.Logf("%s, stored: %q", time.Since(begun).Round(time.Millisecond), stored.Degraded)
		})
	}
	many := make([]events.Step, 200_000)
	for i := range many {
		many[i].Speaker = chat.User
	}
	if stored, err := d.Report(t.Context(), &events.Report{Book: "b", Question: "?", Steps: many}); err != nil && !isInvalid(err) {
		t.Errorf("more steps than can be encoded: got %+v, %v", stored, err)
	}
}

// TestAServerThatIsGoneIsNoFaultOfTheRequest: the client is told to try again.
func TestAServerThatIsGoneIsNoFaultOfTheRequest(t *testing.T) {
	t.Parallel()
	h := build(t)
	d := h.desk(nil, Config{}, brisk)
	h.context(d, &events.ContextRequest{Query: "open the book", DryRun: true})
	h.conn.NATS().Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := d.Report(ctx, &events.Report{Book: "b", Question: "?", Answer: "!"}); !bus.Unreachable(err) {
		t.Errorf("report: got %v", err)
	}
	if _, err := d.Feedback(ctx, &events.FeedbackRequest{Book: "b", Execution: "1-00000000", Target: "42"}); !bus.Unreachable(err) {
		t.Errorf("feedback: got %v", err)
	}
	reply, err := d.Context(ctx, &events.ContextRequest{Book: "b", Session: "s", Query: "?"})
	if err != nil || reply.ID != "" || !says(reply.Manifest.Degraded, "session: ") {
		t.Errorf("context of a book that is open: got %+v, %v", reply, err)
	}
	if _, err := d.Context(ctx, &events.ContextRequest{Book: "c", Query: "?"}); !bus.Unreachable(err) {
		t.Errorf("context of a book that is not: got %v", err)
	}
}
