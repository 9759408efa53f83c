package generator

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
)

// rebuilt is the context of an execution, made again.
func (h *house) rebuilt(d *Desk, handle events.Handle) *Rebuilt {
	h.Helper()
	r, err := d.Rebuild(h.Context(), handle)
	h.ok(err)
	if r.Verified == (len(r.Why)+len(r.Missing) > 0) {
		h.Errorf("verified: %v, why not: %q, missing: %v", r.Verified, r.Why, r.Missing)
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

// handleOf is the handle of an execution in the stream.
func (h *house) handleOf(id events.ID) (handle events.Handle) {
	h.Helper()
	h.ok(h.conn.ReadStored(h.Context(), events.StreamExecutions, events.KindExecution.Subject("b"), func(s bus.Stored) error {
		if s.Event.EventID() == id {
			handle = events.NewHandle(s.Seq, id)
		}
		return nil
	}))
	return handle
}

// TestAContextCanBeMadeAgain: to the byte, after everything that it was made of has moved on.
func TestAContextCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	h.learn("b", bullet(2, 2)...)
	d := h.desk(nil, Config{}, brisk)
	for n := range 12 { // of which a window of 3 shows the last, and recall finds others
		e, r := h.happened("s", fmt.Sprintf("about the gearbox, question %d", n), "turn it", func(e *events.Execution) {
			e.Turn = n + 1
			e.Steps = []events.Step{
				{Speaker: chat.Assistant, Text: "I look.", Calls: []events.ToolCall{{Tool: "read_file", Arguments: `{"path":"/gear.txt"}`, Output: strings.Repeat("cog ", 800)}}},
				{Speaker: chat.User, Text: "go on \xff"},
			}
		})
		h.ok(d.remember(t.Context(), e, r))
	}
	note := h.note(d, "s", "oil first")
	h.recalls(d, bus.Receipt{Seq: h.last(events.StreamExecutions)})
	m := new(talker)
	cfg := Config{}
	cfg.Window = 3
	h.hire(m, nil, cfg, brisk)
	q := task("b", "  what of the gearbox, then?\n")
	q.Session, q.Context = "s", "a tractor"
	e, refused := h.answer(q)
	if refused != "" {
		t.Fatal(refused)
	}
	n := kinds(e.Manifest)
	for _, kind := range []events.PartKind{
		events.PartSystem, events.PartBullet, events.PartUser, events.PartAnswer, events.PartTools, events.PartReflection, events.PartRecall,
		events.PartRecord, events.PartSummary, events.PartContext, events.PartQuery,
	} {
		if n[kind] == 0 {
			t.Fatalf("no %s in the context, so the test shows little: %v, degraded %q", kind, n, e.Manifest.Degraded)
		}
	}
	handle := h.handleOf(e.ID)

	h.learn("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	h.learn("b", playbook.Op{Kind: playbook.Update, Bullet: "misc-00002", Section: "others", Content: "something else"})
	for n := range 3 {
		h.asks("s", fmt.Sprint("more ", n))
	}
	d = h.desk(nil, Config{Recall: RecallNone}, brisk)
	r := h.rebuilt(d, handle)
	if !r.Verified || r.SHA256 != hex.EncodeToString(e.PromptSHA256) {
		t.Fatalf("got %q, missing %v; want it verified", r.Why, r.Missing)
	}
	m.mu.Lock()
	given := m.chats[0]
	m.mu.Unlock()
	if got, want := text(r.Messages), text(given); got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	h.drop(events.StreamReflections, note)
	gone := ""
	for _, p := range e.Manifest.Parts {
		if p.Kind == events.PartRecall {
			gone = p.Ref
		}
	}
	seq, _, err := events.Handle(gone).Parse()
	h.ok(err)
	h.drop(events.StreamExecutions, bus.Receipt{Seq: seq})
	r = h.rebuilt(d, handle)
	missing := fmt.Sprint(r.Missing)
	if r.Verified || len(r.Missing) != 2 || !strings.Contains(missing, gone) || !strings.Contains(missing, string(note.Handle)) || len(r.Why) > 0 {
		t.Errorf("after a purge: got %v, %q; want the two that have expired", r.Missing, r.Why)
	}
}

// last is the last sequence of a stream.
func (h *house) last(stream string) uint64 {
	h.Helper()
	s, err := h.conn.JetStream().Stream(h.Context(), stream)
	h.ok(err)
	return s.CachedInfo().State.LastSeq
}

// TestAContextOfARunningTurnCanBeMadeAgain: the agent had taken steps when it asked, and took more after.
func TestAContextOfARunningTurnCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	d := h.desk(nil, Config{}, brisk)
	step := func(n int) events.Step {
		return events.Step{Speaker: chat.Assistant, Text: "I look.", Calls: []events.ToolCall{{Tool: "grep", Arguments: fmt.Sprintf(`{"pattern":"cog %d"}`, n), Output: fmt.Sprint("cogs.go:", n)}}}
	}
	steps := []events.Step{step(1), step(2), {Speaker: chat.User, Text: "try another"}, step(3), step(4)}
	for name, test := range map[string]struct {
		steps    []events.Step
		question string
		verified bool
		why      string
	}{
		"the same steps, and more":       {steps, "", true, ""},
		"the same steps":                 {steps[:4], "", true, ""},
		"said in other words afterwards": {steps, "what of the cogs, in short?", true, ""},
		"other steps":                    {append([]events.Step{step(7)}, steps[1:]...), "", false, "other steps than those that it had taken"},
		"fewer steps":                    {steps[:1], "", false, "steps that the context shows are not among those of the execution"},
		"no steps":                       {nil, "", false, "steps that the context shows are not among those of the execution"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := h.context(d, &events.ContextRequest{Query: "what of the cogs?", Context: "a clock", System: "You are a clockmaker.", Steps: steps[:4]})
			if n := kinds(&asked.Manifest); n[events.PartTools] != 3 || n[events.PartRecord] == 0 {
				t.Fatalf("got %v", n)
			}
			stored, err := d.Report(t.Context(), &events.Report{Book: "b", ContextID: asked.ID, Question: test.question, Steps: test.steps, Answer: "4"})
			h.ok(err)
			r := h.rebuilt(d, stored.Handle)
			if r.Verified != test.verified || len(r.Missing) > 0 || test.why != "" && !says(r.Why, test.why) {
				t.Errorf("got %v, %q, missing %v; want %v, %q", r.Verified, r.Why, r.Missing, test.verified, test.why)
			}
			if test.verified && text(r.Messages) != text(asked.Messages) {
				t.Errorf("got %q, want %q", text(r.Messages), text(asked.Messages))
			}
		})
	}
}

// TestAContextWithOtherInstructionsCanBeMadeAgain by who has them; who does not is told what is missing.
func TestAContextWithOtherInstructionsCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	own := Config{Instructions: "You answer like a clockmaker.\n"}
	m := new(talker)
	g := New(m, nil, own)
	e, err := g.Answer(t.Context(), h.desk(nil, own, brisk), task("b", "what of the cogs?"))
	h.ok(err)
	system := m.chats[0][0].Text
	if !strings.HasPrefix(system, "You answer like a clockmaker.\n") || !strings.Contains(system, answerForm) || strings.Contains(system, "people who will check") {
		t.Errorf("got %q, want the other instructions and our form", system)
	}
	if ref := e.Manifest.Parts[0].Ref; ref != "generator/p"+chat.Fingerprint("You answer like a clockmaker.") {
		t.Errorf("got %q", ref)
	}
	if e.ID != events.ExecutionID("b", e.TaskID, 0) || h.last(events.StreamExecutions) != 0 {
		t.Errorf("got %+v, and %d stored; want an execution that is stored nowhere", e, h.last(events.StreamExecutions))
	}
	stored, err := h.conn.Publish(t.Context(), e, bus.Marks{})
	h.ok(err)
	if r := h.rebuilt(h.desk(nil, own, brisk), stored.Handle); !r.Verified {
		t.Errorf("with the same: got %q, want it verified", r.Why)
	}
	for name, cfg := range map[string]Config{"with ours": {}, "with others": {Instructions: "You answer like a poet."}} {
		if r := h.rebuilt(h.desk(nil, cfg, brisk), stored.Handle); r.Verified || !says(r.Why, "give them with --generator-prompt") {
			t.Errorf("%s: got %v, %q; want what is missing", name, r.Verified, r.Why)
		}
	}
}

func TestWhatCannotBeRebuiltSaysWhy(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	d := h.desk(nil, Config{}, brisk)
	_, bare := h.happened("s", "?", "!")
	feedback, err := d.Feedback(t.Context(), &events.FeedbackRequest{Book: "b", Execution: bare.Handle, Target: "42"})
	h.ok(err)
	for handle, says := range map[events.Handle]string{
		bare.Handle:     "says nothing of its context",
		feedback.Handle: "is a feedback",
		"99-00000000":   "is not stored",
	} {
		if r, err := d.Rebuild(t.Context(), handle); !isNotFound(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %+v, %v; want %q", handle, r, err, says)
		}
	}
	if _, err := d.Rebuild(t.Context(), "nonsense"); !isInvalid(err) {
		t.Errorf("got %v, want that it is no handle", err)
	}

	id := h.context(d, &events.ContextRequest{Query: "?"}).ID
	served, err := d.windows.Served(t.Context(), id)
	h.ok(err)
	for says, change := range map[string]func(*events.Execution){
		"it was put together by rules a0, this program has": func(e *events.Execution) { e.Manifest.Assembly, e.PromptSHA256 = "a0", []byte{1} },
		"the instructions were generator/g0, this program": func(e *events.Execution) {
			e.Manifest.Parts[0] = events.Part{Kind: events.PartSystem, Ref: "generator/g0"}
		},
		`playbook: playbook "b" has no version 9`: func(e *events.Execution) { e.Version = 9 },
		`nonsense: handle "nonsense": want`: func(e *events.Execution) {
			e.Manifest.Parts = append(e.Manifest.Parts, events.Part{Kind: events.PartReflection, Ref: "nonsense"})
			e.PromptSHA256 = nil
		},
	} {
		_, stored := h.happened("s", "?", "!", func(e *events.Execution) {
			m := served.Manifest
			m.Parts = append([]events.Part(nil), m.Parts...)
			e.Version, e.Manifest, e.PromptSHA256 = served.Version, &m, served.SHA256
			change(e)
		})
		if r := h.rebuilt(d, stored.Handle); r.Verified || !strings.Contains(strings.Join(r.Why, "\n"), says) {
			t.Errorf("got %q, %v; want %q", r.Why, r.Missing, says)
		}
	}
}
