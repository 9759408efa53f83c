package generator

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/playbook"
)

// rebuild rebuilds the context of an execution.
func (f *fixture) rebuild(cb *ContextBuilder, handle events.Handle) *RebuiltContext {
	f.Helper()
	r, err := cb.Rebuild(f.Context(), handle)
	f.ok(err)
	if r.Verified == (len(r.Reasons)+len(r.Missing) > 0) {
		f.Errorf("verified: %v, reasons: %q, missing: %v", r.Verified, r.Reasons, r.Missing)
	}
	return r
}

func kinds(m *events.Manifest) map[events.PartKind]int {
	n := make(map[events.PartKind]int)
	for _, p := range m.Parts {
		n[p.Kind]++
	}
	return n
}

// handleOf returns the handle of a stored execution.
func (f *fixture) handleOf(id events.ID) (handle events.Handle) {
	f.Helper()
	f.ok(f.conn.Events.Scan(f.Context(), events.StreamExecutions, events.KindExecution.Subject("b"), 1, func(s bus.Stored) error {
		if s.Event.EventID() == id {
			handle = events.NewHandle(s.Seq, id)
		}
		return nil
	}))
	return handle
}

// The rebuilt context is identical although all of its sources have changed since.
func TestRebuildIsExact(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	f.commit("b", bullet(2, 2)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	for n := range 12 { // a window of 3 shows the last ones, recall finds others
		e, r := f.storeExecution("s", fmt.Sprintf("about the gearbox, question %d", n), "turn it", func(e *events.Execution) {
			e.Turn = n + 1
			e.Steps = []events.Step{
				{Speaker: chat.Assistant, Text: "I look.", Calls: []events.ToolCall{{Tool: "read_file", Arguments: `{"path":"/gear.txt"}`, Output: strings.Repeat("cog ", 800)}}},
				{Speaker: chat.User, Text: "go on \xff"},
			}
		})
		f.ok(cb.addToWindow(t.Context(), e, r))
	}
	note := f.storeNote(cb, "s", "which oil?", "oil first")
	f.storeNote(cb, "t", "what of the gearbox of a car?", "grease last")
	f.waitRead(cb, bus.Receipt{Seq: f.lastSequence(events.StreamExecutions)})
	m := new(echoModel)
	cfg := Config{}
	cfg.Window = 3
	f.startWith(m, nil, cfg, testTimeouts)
	q := task("b", "  what of the gearbox, then?\n")
	q.Session, q.Context = "s", "a tractor"
	e, refused := f.answer(q)
	if refused != "" {
		t.Fatal(refused)
	}
	n := kinds(e.Manifest)
	for _, kind := range []events.PartKind{
		events.PartSystem, events.PartBullet, events.PartUser, events.PartAnswer, events.PartTools, events.PartReflection, events.PartRecall,
		events.PartRecord, events.PartSummary, events.PartContext, events.PartQuery,
	} {
		if n[kind] == 0 {
			t.Fatalf("no %s in the context: the test is void: %v, warnings %q", kind, n, e.Manifest.Warnings)
		}
	}
	if got := chatText(m.last()); !strings.Contains(got, "grease last") || strings.Contains(got, "take 4.30 for grease last") {
		t.Fatalf("got %q, want the insight of another session: the test is void", got)
	}
	handle := f.handleOf(e.ID)

	f.commit("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	f.commit("b", playbook.Op{Kind: playbook.Update, Bullet: "misc-00002", Section: "others", Content: "something else"})
	for n := range 3 {
		f.answerInSession("s", fmt.Sprint("more ", n))
	}
	cb = f.newBuilder(nil, Config{Recall: RecallNone}, testTimeouts)
	r := f.rebuild(cb, handle)
	if !r.Verified || r.SHA256 != hex.EncodeToString(e.PromptSHA256) {
		t.Fatalf("got %q, missing %v; want it verified", r.Reasons, r.Missing)
	}
	m.mu.Lock()
	given := m.chats[0]
	m.mu.Unlock()
	if got, want := chatText(r.Messages), chatText(given); got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	f.deleteMessage(events.StreamReflections, note)
	gone := ""
	for _, p := range e.Manifest.Parts {
		if p.Kind == events.PartRecall {
			gone = p.Ref
		}
	}
	seq, _, err := events.Handle(gone).Parse()
	f.ok(err)
	f.deleteMessage(events.StreamExecutions, bus.Receipt{Seq: seq})
	r = f.rebuild(cb, handle)
	missing := fmt.Sprint(r.Missing)
	if r.Verified || len(r.Missing) != 2 || !strings.Contains(missing, gone) || !strings.Contains(missing, string(note.Handle)) || len(r.Reasons) > 0 {
		t.Errorf("after a purge: got %v, %q; want the two expired parts", r.Missing, r.Reasons)
	}
}

// lastSequence returns the last sequence of a stream.
func (f *fixture) lastSequence(stream string) uint64 {
	f.Helper()
	s, err := f.conn.JetStream().Stream(f.Context(), stream)
	f.ok(err)
	return s.CachedInfo().State.LastSeq
}

// The agent reported more steps than in its request.
func TestRebuildContextOfRunningTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	step := func(n int) events.Step {
		return events.Step{Speaker: chat.Assistant, Text: "I look.", Calls: []events.ToolCall{{Tool: "grep", Arguments: fmt.Sprintf(`{"pattern":"cog %d"}`, n), Output: strings.Repeat(fmt.Sprintf("cogs.go:%d\n", n), 5000)}}} // shortened, so that it has a record line
	}
	steps := []events.Step{step(1), step(2), {Speaker: chat.User, Text: "try another"}, step(3), step(4)}
	for name, test := range map[string]struct {
		steps    []events.Step
		question string
		verified bool
		why      string
	}{
		"the same steps, and more": {steps, "", true, ""},
		"the same steps":           {steps[:4], "", true, ""},
		"question reworded":        {steps, "what of the cogs, in short?", true, ""},
		"other steps":              {append([]events.Step{step(7)}, steps[1:]...), "", false, "steps"},
		"fewer steps":              {steps[:1], "", false, "steps"},
		"no steps":                 {nil, "", false, "steps"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := f.context(cb, &events.ContextRequest{Query: "what of the cogs?", Context: "a clock", System: "You are a clockmaker.", Steps: steps[:4]})
			if n := kinds(&asked.Manifest); n[events.PartTools] != 3 || n[events.PartRecord] == 0 {
				t.Fatalf("got %v", n)
			}
			stored, err := cb.Report(t.Context(), &events.Report{Book: "b", ContextID: asked.ID, Question: test.question, Steps: test.steps, Answer: "4"})
			f.ok(err)
			r := f.rebuild(cb, stored.Handle)
			if r.Verified != test.verified || len(r.Missing) > 0 || test.why != "" && !containsAll(r.Reasons, test.why) {
				t.Errorf("got %v, %q, missing %v; want %v, %q", r.Verified, r.Reasons, r.Missing, test.verified, test.why)
			}
			if test.verified && chatText(r.Messages) != chatText(asked.Messages) {
				t.Errorf("got %q, want %q", chatText(r.Messages), chatText(asked.Messages))
			}
		})
	}
}

// Without the same custom instructions the result lists them as missing.
func TestRebuildWithCustomInstructions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	own := Config{Instructions: "You answer like a clockmaker.\n"}
	m := new(echoModel)
	g := bustest.Must(New(m, nil, own))
	e, err := g.Answer(t.Context(), f.newBuilder(nil, own, testTimeouts), task("b", "what of the cogs?"))
	f.ok(err)
	system := m.chats[0][0].Text
	if !strings.HasPrefix(system, "You answer like a clockmaker.\n") || !strings.Contains(system, chat.PromptAnswerFormat) || strings.Contains(system, "people who will check") {
		t.Errorf("got %q, want the custom instructions and the answer format", system)
	}
	if ref := e.Manifest.Parts[0].Ref; ref != "generator/p"+chat.Fingerprint("You answer like a clockmaker.") {
		t.Errorf("got %q", ref)
	}
	if e.ID != events.ExecutionID("b", "", e.RunID, 0) || f.lastSequence(events.StreamExecutions) != 0 {
		t.Errorf("got %+v, and %d stored; want an execution that is not stored", e, f.lastSequence(events.StreamExecutions))
	}
	stored, err := f.conn.Publish(t.Context(), e, bus.PublishOptions{})
	f.ok(err)
	if r := f.rebuild(f.newBuilder(nil, own, testTimeouts), stored.Handle); !r.Verified {
		t.Errorf("with the same instructions: got %q, want it verified", r.Reasons)
	}
	for name, cfg := range map[string]Config{"with ours": {}, "with others": {Instructions: "You answer like a poet."}} {
		if r := f.rebuild(f.newBuilder(nil, cfg, testTimeouts), stored.Handle); r.Verified || !containsAll(r.Reasons, "--generator-prompt") {
			t.Errorf("%s: got %v, %q; want the missing instructions", name, r.Verified, r.Reasons)
		}
	}
}

func TestRebuildReportsReasons(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	_, bare := f.storeExecution("s", "?", "!")
	feedback, err := cb.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", Execution: bare.Handle, Target: "42"})
	f.ok(err)
	for handle, names := range map[events.Handle]string{
		bare.Handle:     "manifest",
		feedback.Handle: "feedback",
		"99-00000000":   "99-00000000",
	} {
		if r, err := cb.Rebuild(t.Context(), handle); !isNotFound(err) || !strings.Contains(err.Error(), names) {
			t.Errorf("%s: got %+v, %v; want an error that names %s", handle, r, err, names)
		}
	}
	if _, err := cb.Rebuild(t.Context(), "nonsense"); !isInvalid(err) {
		t.Errorf("got %v, want an invalid handle", err)
	}

	id := f.context(cb, &events.ContextRequest{Query: "?"}).ID
	served, err := cb.windows.Context(t.Context(), id)
	f.ok(err)
	for field, change := range map[string]func(*events.Execution){
		"assembly version: ": func(e *events.Execution) { e.Manifest.Assembly, e.PromptSHA256 = "a0", []byte{1} },
		"instructions: ": func(e *events.Execution) {
			e.Manifest.Parts[0] = events.Part{Kind: events.PartSystem, Ref: "generator/g0"}
		},
		"playbook: ": func(e *events.Execution) { e.Version = 9 },
		"nonsense: ": func(e *events.Execution) {
			e.Manifest.Parts = append(e.Manifest.Parts, events.Part{Kind: events.PartReflection, Ref: "nonsense"})
			e.PromptSHA256 = nil
		},
	} {
		_, stored := f.storeExecution("s", "?", "!", func(e *events.Execution) {
			m := served.Manifest
			m.Parts = append([]events.Part(nil), m.Parts...)
			e.Version, e.Manifest, e.PromptSHA256 = served.Version, &m, served.SHA256
			change(e)
		})
		if r := f.rebuild(cb, stored.Handle); r.Verified || len(r.Reasons) != 1 || !strings.HasPrefix(r.Reasons[0], field) {
			t.Errorf("got %q, %v; want a reason that names %s", r.Reasons, r.Missing, field)
		}
	}
}
