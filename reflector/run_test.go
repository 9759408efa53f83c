package reflector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/streams"
	"debrief/events/window"
	"debrief/playbook"
)

func openConn(t *testing.T) *bus.Conn {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{BackoffMin: 10 * time.Millisecond})
	return conn
}

// runReflector runs a Reflector until the test ends.
func runReflector(t *testing.T, conn *bus.Conn, m chat.Model) {
	startReflector(t, bustest.Must(New(m, Config{Slots: 1})), conn)
}

func startReflector(t *testing.T, r *Reflector, conn *bus.Conn) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx, conn) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func publish(t *testing.T, conn *bus.Conn, e events.Event) bus.Receipt {
	t.Helper()
	r, err := conn.Publish(t.Context(), e, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// firstEvent waits for the first event on a subject.
func firstEvent[E events.Event](t *testing.T, conn *bus.Conn, stream, subject string) (e E) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := conn.Events.Poll(ctx, stream, subject, 0, time.Millisecond, func(s bus.Stored) error {
		e = s.Event.(E)
		return bus.ErrStop
	})
	if err != nil {
		t.Fatalf("nothing under %s: %v", subject, err)
	}
	return e
}

// failingRun returns a finished run with a failed call, in which the rules find something.
func failingRun(task string, purpose events.Purpose) *events.Execution {
	e := &events.Execution{
		Book: "b",
		ID:   events.ExecutionID("b", "", task, 0), RunID: task, Purpose: purpose, Outcome: events.Outcome{Label: events.Success, Score: 1},
		Question: strings.Repeat("é", 400),
		Manifest: &events.Manifest{Exposures: []events.Exposure{{Bullet: "misc-00001", Arm: playbook.ArmShown}}},
		Steps: []events.Step{{Speaker: "assistant", Calls: []events.ToolCall{
			{Tool: "book", Arguments: `{"id": 1}`, Output: "no such id", Outcome: events.Failure},
			{Tool: "find", Arguments: `{}`, Output: "2", Outcome: events.Success},
			{Tool: "book", Arguments: `{"id": 2}`, Output: "done", Outcome: events.Success},
		}}},
	}
	return e
}

// scriptedModel is a model that answers with the result of a function.
type scriptedModel func() (string, error)

func (o scriptedModel) Complete(context.Context, chat.Prompt) (chat.Reply, error) {
	text, err := o()
	return chat.Reply{Text: text, Model: "oracle", Finish: "stop"}, err
}

// With one slot, everything published before the last run is handled before it.
func TestExecutionsWithoutLessonsAreSkipped(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	idle := failingRun("idle", events.Learn)
	idle.Steps, idle.Manifest = nil, nil
	publish(t, conn, failingRun("exam", events.Evaluate))
	publish(t, conn, idle)
	last := publish(t, conn, failingRun("lesson", events.Learn))
	runReflector(t, conn, nil)
	r := firstEvent[*events.Reflection](t, conn, events.StreamReflections, events.KindReflection.Subject("b"))
	execution := events.ExecutionID("b", "", "lesson", 0)
	if r.Execution != execution || r.ID != events.ReflectionID(execution, "", outcomesVersion) || r.Handle != last.Handle || r.Reflector != outcomesVersion {
		t.Errorf("got %+v, want the reflection on the last run alone", r)
	}
	if len(r.Exposures) != 1 || len(r.Lessons)+len(r.Tags) != 0 || r.Outcome.Label != events.Success || len(r.Question) > 510 {
		t.Errorf("got %+v, want an exposure and nothing else", r)
	}
	dead, err := conn.Streams(t.Context())
	if err != nil || dead[4].Name != events.StreamDead || dead[4].Messages != 0 || dead[2].Messages != 1 {
		t.Errorf("streams %+v, %v; want one reflection and no dead letter", dead, err)
	}
}

func TestEvaluationsNeverReachAModel(t *testing.T) {
	t.Parallel()
	r := bustest.Must(New(scriptedModel(func() (string, error) {
		t.Error("the model was asked about an evaluation")
		return "", errors.New("no")
	}), Config{}))
	if got := (&worker{Reflector: r}).handle(t.Context(), &bus.Delivery{Event: failingRun("exam", events.Evaluate), Seq: 1}); got.Err != nil || len(got.Events) != 0 {
		t.Errorf("got %+v, want an ack and nothing else", got)
	}
}

func TestUnknownOutcomeWithoutSignalSkipsTheModel(t *testing.T) {
	t.Parallel()
	asked := 0
	r := bustest.Must(New(scriptedModel(func() (string, error) {
		asked++
		return `{"reasoning": "r", "error_identification": "", "root_cause_analysis": "", "correct_approach": "", "key_insight": "", "section": "", "bullet_tags": []}`, nil
	}), Config{}))
	quiet := failingRun("quiet", events.Learn)
	quiet.Steps, quiet.Outcome = nil, events.Outcome{Label: events.Unknown}
	if got := (&worker{Reflector: r}).handle(t.Context(), &bus.Delivery{Event: quiet, Seq: 1}); got.Err != nil || len(got.Events) != 0 || asked != 0 {
		t.Errorf("no outcome and no signal: got %+v after %d questions, want an ack after none", got, asked)
	}
}

// TestUsageOfACallThatTeachesNothingIsStored reflects on a success without bullets and lessons.
func TestUsageOfACallThatTeachesNothingIsStored(t *testing.T) {
	t.Parallel()
	spent := chat.Usage{Calls: 1, InputTokens: 900, OutputTokens: 20, Duration: time.Second}
	r := bustest.Must(New(chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) {
		return chat.Reply{Text: `{"reasoning": "r", "key_insight": "", "bullet_tags": []}`, Usage: spent}, nil
	}), Config{}))
	judged := failingRun("judged", events.Learn)
	judged.Steps, judged.Manifest = nil, nil
	got := (&worker{Reflector: r}).handle(t.Context(), &bus.Delivery{Event: judged, Seq: 1})
	if got.Err != nil || len(got.Events) != 1 {
		t.Fatalf("got %+v, want one reflection", got)
	}
	used := got.Events[0].(*events.Reflection).Usage
	used.Duration = spent.Duration // measured
	if used != spent {
		t.Errorf("got usage %+v, want %+v", used, spent)
	}
}

// The second delivery of an execution gives a reflection with the same id, also if the model answers differently.
func TestIDsDoNotDependOnTheDelivery(t *testing.T) {
	t.Parallel()
	said := []string{"first", "second"}
	r := bustest.Must(New(scriptedModel(func() (string, error) {
		insight := said[0]
		said = said[1:]
		return `{"reasoning": "r", "error_identification": "", "root_cause_analysis": "", "correct_approach": "", "key_insight": "` + insight + `", "section": "others", "bullet_tags": []}`, nil
	}), Config{}))
	var ids []events.ID
	for range 2 {
		got := (&worker{Reflector: r}).handle(t.Context(), &bus.Delivery{Event: failingRun("t", events.Learn), Seq: 7})
		if got.Err != nil || len(got.Events) != 1 {
			t.Fatalf("got %+v, want a reflection", got)
		}
		ids = append(ids, got.Events[0].EventID())
	}
	if ids[0] != ids[1] {
		t.Errorf("got %v, want one id", ids)
	}
	if alone := bustest.Must(New(nil, Config{})); alone.version == r.version {
		t.Errorf("with and without a model: one version %q for both", r.version)
	}
}

// TestLaterCopyOfAnExecutionAddsNoNote: a copy that is stored after the server's duplicate window is not a recent
// reflection.
func TestLaterCopyOfAnExecutionAddsNoNote(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	windows := window.New(conn.NATS(), conn.JetStream())
	s, err := conn.JetStream().Stream(t.Context(), "KV_"+events.BucketWindow)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond // the shortest that the server accepts
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	reply := `{"reasoning": "r", "error_identification": "", "root_cause_analysis": "", "correct_approach": "a", "key_insight": "i", "section": "others", "bullet_tags": []}`
	r := bustest.Must(New(scriptedModel(func() (string, error) { return reply, nil }), Config{}))
	reflect := func(task string, seq uint64) events.ID {
		got := newWorker(r, conn).handle(t.Context(), &bus.Delivery{Event: failingRun(task, events.Learn), Seq: seq})
		if got.Err != nil || len(got.Events) != 1 || got.AfterStore == nil {
			t.Fatalf("got %+v, want a reflection", got)
		}
		id := got.Events[0].EventID()
		if err := got.AfterStore(t.Context(), bus.Receipt{Seq: seq, Handle: events.NewHandle(seq, id)}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := reflect("t", 1)
	for i := range uint64(3 * streams.WindowHistory) { // they push the note of the first copy out of the window
		reflect(fmt.Sprint("other ", i), 10+i)
	}
	time.Sleep(3 * cfg.Duplicates) // until the server has forgotten the id
	reflect("t", 1000)
	notes, _, err := windows.Notes(t.Context(), "b", "", "", 3*streams.WindowHistory)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(notes, func(n *events.Note) bool { return n.ID == id }) {
		t.Errorf("the window of %d notes contains a note of the later copy", len(notes))
	}
}

// TestWithheldBulletIsQuotedFromTheLog checks that a worker reads the text of a withheld bullet, which the stored execution does not contain.
func TestWithheldBulletIsQuotedFromTheLog(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	const advice = "Look up the id before a booking."
	writer, err := deltalog.New(conn.JetStream()).Writer(t.Context(), "b")
	if err == nil {
		_, err = writer.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			add := playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", 1), Section: "others", Content: advice}
			return []*playbook.Delta{{Covers: make([]playbook.Cover, 1), Ops: []playbook.Op{add}}}, nil
		})
	}
	if err == nil {
		err = writer.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	e := failingRun("t", events.Learn)
	e.Version, e.Outcome = 1, events.Outcome{Label: events.Failure}
	e.Manifest.Exposures = []events.Exposure{
		{Bullet: playbook.MintID("others", 1), Arm: playbook.ArmWithheld, Wording: events.WordingOf(advice), Content: advice},
	}
	stored := publish(t, conn, e)
	read, err := conn.Events.Find(t.Context(), events.StreamExecutions, stored.Seq, func(events.ID) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	model := new(promptModel)
	if got := newWorker(bustest.Must(New(model, Config{})), conn).handle(t.Context(), &bus.Delivery{Event: read, Seq: stored.Seq}); got.Err != nil {
		t.Fatal(got.Err)
	}
	if got := quotesOf(t, model.last)[quoteWithheld]; !strings.Contains(got, advice) {
		t.Errorf("got the withheld bullets %q, want %q among them", got, advice)
	}
}

func TestFeedbackSetsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	e := failingRun("late", events.Learn)
	e.Outcome, e.Steps = events.Outcome{Label: events.Unknown}, nil // nothing to learn before the outcome is known
	at := publish(t, conn, e)
	f := &events.Feedback{Book: "b", ID: events.NewID(), Execution: at.Handle, Outcome: events.Outcome{Label: events.Failure, By: "ann"}, Target: "42"}
	publish(t, conn, f)
	runReflector(t, conn, scriptedModel(func() (string, error) {
		return `{"reasoning": "r", "error_identification": "", "root_cause_analysis": "", "correct_approach": "a", "key_insight": "i", "section": "others", "bullet_tags": []}`, nil
	}))
	r := firstEvent[*events.Reflection](t, conn, events.StreamReflections, events.KindReflection.Subject("b"))
	if r.ID != events.ReflectionID(e.ID, f.ID, r.Reflector) || r.Handle != at.Handle || r.Outcome.By != "ann" {
		t.Errorf("got %+v, want the reflection on %s", r, at.Handle)
	}
	store := window.New(conn.NATS(), conn.JetStream())
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the note comes after the reflection
		notes, _, err := store.Notes(t.Context(), "b", "", "", 3)
		if err == nil && len(notes) == 1 && notes[0].Insight == "i" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got notes %+v, %v; want the insight", notes, err)
		}
	}
}

func TestInvalidFeedbackIsADeadLetter(t *testing.T) {
	t.Parallel()
	for why, e := range map[string]*events.Execution{"another playbook": failingRun("t", events.Learn), "not stored": nil} {
		conn := openConn(t)
		h := events.NewHandle(1, events.NewID())
		if e != nil {
			e.Book = "another"
			h = publish(t, conn, e).Handle
		}
		f := &events.Feedback{Book: "b", ID: events.NewID(), Execution: h, Outcome: events.Outcome{Label: events.Failure}}
		publish(t, conn, f)
		runReflector(t, conn, nil)
		l := firstEvent[*events.DeadLetter](t, conn, events.StreamDead, events.DeadSubject(events.RoleReflector, "b"))
		if l.Code != events.DeadInvalid || l.Attempts != 1 || l.Subject != events.KindFeedback.Subject("b") {
			t.Errorf("%s: got %+v, want it invalid at once", why, l)
		}
		if got, err := events.Decode(l.Subject, l.Header, l.Data); err != nil || got.EventID() != f.ID {
			t.Errorf("got %v, %v; want the feedback itself in the letter", got, err)
		}
	}
}

func TestModelErrorsKeepTheirType(t *testing.T) {
	t.Parallel()
	away := bustest.Must(New(scriptedModel(func() (string, error) { return "", &chat.UnavailableError{Err: errors.New("no route")} }), Config{}))
	got := (&worker{Reflector: away}).handle(t.Context(), &bus.Delivery{Event: failingRun("t", events.Learn), Seq: 7})
	var unavailable interface{ Unavailable() bool }
	if !errors.As(got.Err, &unavailable) || len(got.Events) != 0 {
		t.Errorf("got %+v, want it held", got)
	}
	useless := bustest.Must(New(scriptedModel(func() (string, error) { return "…", nil }), Config{}))
	got = (&worker{Reflector: useless}).handle(t.Context(), &bus.Delivery{Event: failingRun("t", events.Learn), Seq: 7})
	var bad interface{ Useless() bool }
	if !errors.As(got.Err, &bad) || !strings.Contains(got.Err.Error(), string(events.NewHandle(7, events.ExecutionID("b", "", "t", 0)))) {
		t.Errorf("got %v, want it useless and naming the execution", got.Err)
	}
}

// TestFirstRepliesAreCounted checks the count for the health of the role: one reply for each request, not those to the
// prompts that describe a problem.
func TestFirstRepliesAreCounted(t *testing.T) {
	t.Parallel()
	const repaired = `{'reasoning': 'r', 'key_insight': 'look up the id first',}`
	for _, row := range []struct {
		replies []string
		want    bus.ReplyStats
	}{
		{[]string{repaired}, bus.ReplyStats{Total: 1, Repaired: 1}},
		{[]string{"…", "…", repaired}, bus.ReplyStats{Total: 1, Invalid: 1}},
	} {
		conn := openConn(t)
		asked := 0
		runReflector(t, conn, scriptedModel(func() (string, error) {
			asked++
			return row.replies[min(asked, len(row.replies))-1], nil
		}))
		publish(t, conn, failingRun("t", events.Learn))
		firstEvent[*events.Reflection](t, conn, events.StreamReflections, events.KindReflection.Subject("b"))
		for _, role := range conn.Stats.Roles() {
			got := role.Replies
			if role.Role == events.RoleReflector && (got.Total != row.want.Total || got.Repaired != row.want.Repaired || got.Invalid != row.want.Invalid) {
				t.Errorf("%q: got %+v, want %+v", row.replies, got, row.want)
			}
		}
	}
}

// TestShownReflectionIsQuotedFromItsStream checks that a worker reads the texts of the reflections that the prompt of a run had, and no others.
func TestShownReflectionIsQuotedFromItsStream(t *testing.T) {
	t.Parallel()
	conn := openConn(t)
	reflection := func(book playbook.Book, insight string) string {
		ref := &events.Reflection{
			Book: book, ID: events.Hash(string(book), insight), Execution: events.Hash("run", insight), Handle: "1-aaaaaaaa", Reflector: "r",
			Outcome: events.Outcome{Label: events.Failure}, CorrectApproach: "Not in the prompt.", KeyInsight: insight, Model: "m",
		}
		return string(publish(t, conn, ref).Handle)
	}
	e := failingRun("t", events.Learn)
	e.Outcome = events.Outcome{Label: events.Failure}
	for _, ref := range []string{reflection("b", "Ask for the date."), reflection("other", "Of another book."), "99-aaaaaaaa"} {
		e.Manifest.Parts = append(e.Manifest.Parts, events.Part{Kind: events.PartReflection, Ref: ref, Why: events.NoteInsight})
	}
	model := new(promptModel)
	stored := publish(t, conn, e)
	if got := newWorker(bustest.Must(New(model, Config{})), conn).handle(t.Context(), &bus.Delivery{Event: e, Seq: stored.Seq}); got.Err != nil {
		t.Fatal(got.Err)
	}
	if got, want := quotesOf(t, model.last)[quoteNotes], "- insight: Ask for the date."; got != want {
		t.Errorf("got the reflections %q, want %q", got, want)
	}
}
