package generator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator/scoring"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// house is a server with its streams.
type house struct {
	*testing.T
	conn  *bus.Conn
	store *natskv.Store
}

func build(t *testing.T) *house {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{MaxAttempts: 2, BackoffMin: 10 * time.Millisecond, BackoffMax: 10 * time.Millisecond})
	return &house{t, conn, natskv.New(conn.JetStream())}
}

func (h *house) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// work runs a generator until the test ends.
func (h *house) work(m chat.Model) { h.runs(New(m, nil, Config{})) }

func (h *house) runs(g *Generator) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- g.Run(ctx, h.conn) }()
	h.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			h.Error(err)
		}
	})
}

// learn commits one version to a book and flushes it.
func (h *house) learn(b playbook.Book, ops ...playbook.Op) {
	h.Helper()
	w, err := h.store.Writer(h.Context(), b)
	h.ok(err)
	_, err = w.Commit(h.Context(), func(natskv.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Covers: make([]playbook.Cover, 99), Ops: slices.Clone(ops)}}, nil
	})
	h.ok(err)
	h.ok(w.Flush(h.Context()))
}

func bullet(n uint64, votes int) []playbook.Op {
	ops := []playbook.Op{{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: fmt.Sprint("advice ", n)}}
	if votes > 0 {
		support := make([]int, votes)
		for i := range support {
			support[i] = i
		}
		ops = append(ops, playbook.Op{Kind: playbook.Tag, Bullet: ops[0].Bullet, Helpful: votes, Support: support})
	}
	return ops
}

func task(b playbook.Book, question string, version ...uint64) *events.Task {
	t := &events.Task{ID: string(events.NewID()), Question: question}
	t.Book = b
	for _, v := range version {
		t.Playbook = &v
	}
	return t
}

// answer has a task answered, or says why it was given up.
func (h *house) answer(t *events.Task) (*events.Execution, string) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context(), 10*time.Second)
	defer cancel()
	reply, err := h.conn.Request(ctx, t, bus.Marks{})
	h.ok(err)
	if reply.Refused != "" {
		return nil, reply.Refused
	}
	e := new(events.Execution)
	h.ok(events.Unmarshal(reply.Data, e))
	return e, ""
}

// letter is the dead letter of a task.
func (h *house) letter(t *events.Task) *events.DeadLetter {
	h.Helper()
	var found *events.DeadLetter
	h.ok(h.conn.ReadStored(h.Context(), events.StreamDead, events.DeadSubject(events.RoleGenerator, t.Book), func(s bus.Stored) error {
		l := s.Event.(*events.DeadLetter)
		if e, err := events.Decode(l.Subject, l.Header, l.Data); err == nil && e.EventID() == t.EventID() {
			found = l
		}
		return nil
	}))
	if found == nil {
		h.Fatalf("no dead letter of task %s", t.ID)
	}
	return found
}

// scribe is a model that writes down what it is asked, and cites a bullet that it was shown and one that nobody has.
type scribe struct {
	mu      sync.Mutex
	prompts []string
}

func (s *scribe) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range p.Messages {
		s.prompts = append(s.prompts, m.Text)
	}
	return chat.Reply{Text: `{"reasoning": "so", "bullet_ids": ["misc-00001", "misc-00099", "[misc-00001]"], "final_answer": "42"}`, Model: "scribe", Finish: "stop"}, nil
}

func shown(e *events.Execution) (ids []playbook.BulletID) {
	for _, b := range e.Shown {
		ids = append(ids, b.ID)
	}
	return ids
}

func TestATaskIsAnsweredUnderTheVersionItAsksFor(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	h.learn("b", bullet(2, 2)...)
	h.learn("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	s := new(scribe)
	h.work(s)
	for _, test := range []struct {
		why     string
		task    *events.Task
		version uint64
		shown   []playbook.BulletID
		cited   []playbook.BulletID
	}{
		{"version 0 is the empty playbook", task("b", "?", 0), 0, nil, nil},
		{"an old version, with what was removed since", task("b", "?", 1), 1, []playbook.BulletID{"misc-00001"}, []playbook.BulletID{"misc-00001"}},
		{"the best first", task("b", "?", 2), 2, []playbook.BulletID{"misc-00002", "misc-00001"}, []playbook.BulletID{"misc-00001"}},
		{"the newest by its number", task("b", "?", 3), 3, []playbook.BulletID{"misc-00002"}, nil},
		{"the newest", task("b", "?"), 3, []playbook.BulletID{"misc-00002"}, nil},
		{"again, from the shelf", task("b", "?", 1), 1, []playbook.BulletID{"misc-00001"}, []playbook.BulletID{"misc-00001"}},
		{"a book that nobody has written", task("new", "?"), 0, nil, nil},
	} {
		e, refused := h.answer(test.task)
		if refused != "" {
			t.Errorf("%s: %s", test.why, refused)
			continue
		}
		if e.Version != test.version || !slices.Equal(shown(e), test.shown) || !slices.Equal(e.Cited, test.cited) {
			t.Errorf("%s: got version %d, shown %v, cited %v; want %d, %v, %v", test.why, e.Version, shown(e), e.Cited, test.version, test.shown, test.cited)
		}
		if e.ID != events.ExecutionID(test.task.Book, test.task.ID, 0) || e.Answer != "42" || e.Model != "scribe" || len(e.PromptSHA256) != 32 {
			t.Errorf("%s: got %+v", test.why, e)
		}
	}
}

func TestTheBestThirtyAreShown(t *testing.T) {
	t.Parallel()
	h := build(t)
	var ops []playbook.Op
	for n := range uint64(40) {
		ops = append(ops, bullet(n+1, int(n%7))...)
	}
	ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00007", Status: playbook.Candidate})
	h.learn("b", ops...)
	s := new(scribe)
	h.work(s)
	e, refused := h.answer(task("b", "?"))
	p, err := h.store.At(t.Context(), "b", 1)
	h.ok(err)
	var want []playbook.BulletID
	for _, b := range p.Top(30) {
		want = append(want, b.ID)
	}
	if refused != "" || !slices.Equal(shown(e), want) || slices.Contains(want, "misc-00007") {
		t.Errorf("got %v %s, want %v", shown(e), refused, want)
	}
	for _, b := range e.Shown {
		if !strings.Contains(s.prompts[0], "["+string(b.ID)+"] "+b.Content) {
			t.Errorf("%s is recorded as shown and not in the prompt", b.ID)
		}
	}
}

func TestTheTargetIsNeverInAPrompt(t *testing.T) {
	t.Parallel()
	h := build(t)
	s := new(scribe)
	h.work(s)
	for by, target := range map[string]string{scoring.ByText: "s3cret", scoring.ByNumber: "31337.5", scoring.BySteps: `{"answer": "31337.5", "steps": [{"name": "s3cret", "amount": "1"}]}`, scoring.ByList: "s3cret,31337", scoring.ByPattern: "s3cret", scoring.ByJSON: `["s3cret"]`} {
		q := task("b", "what is it?")
		q.Context, q.Target, q.Evaluator = "an invoice", target, by
		e, refused := h.answer(q)
		if refused != "" || e.Target != target || e.Outcome.Label != events.Failure {
			t.Errorf("%s: got %+v %s, want a failure that keeps its target", by, e, refused)
		}
	}
	for _, text := range s.prompts {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "31337") {
			t.Errorf("target in a prompt: %q", text)
		}
	}
}

// TestAnAnswerThatNoProgramCanJudgeIsKept: it was paid for. What went wrong is told beside it.
func TestAnAnswerThatNoProgramCanJudgeIsKept(t *testing.T) {
	t.Parallel()
	h := build(t)
	var hangs, crashes scoring.Program
	h.ok(errors.Join(hangs.UnmarshalText([]byte("hangs=sleep 600")), crashes.UnmarshalText([]byte("crashes=false"))))
	judge := scoring.NewJudge(scoring.Config{Programs: []scoring.Program{hangs, crashes}, Timeout: 200 * time.Millisecond}, 2)
	h.runs(New(new(scribe), nil, Config{Judge: judge}))
	for by, feedback := range map[string]string{
		"program:hangs":   "evaluator program hangs: timed out after 200ms",
		"program:crashes": "evaluator program crashes: exit status 1",
	} {
		q := task("b", "what is it?")
		q.Evaluator = by
		e, refused := h.answer(q)
		want := events.Outcome{Label: events.Unknown, By: by, Feedback: feedback}
		if refused != "" || e.Answer == "" || e.Outcome != want {
			t.Errorf("got %+v, %s; want an answer with %+v", e, refused, want)
		}
	}
	stranger := task("b", "what is it?")
	stranger.Evaluator = "program:rm"
	if _, refused := h.answer(stranger); !strings.Contains(refused, "none of the programs that this generator knows: program:crashes, program:hangs") {
		t.Errorf("a program that nobody named: got %q", refused)
	}
}

func TestWhatCannotBeAnsweredIsADeadLetter(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.learn("b", bullet(1, 0)...)
	h.work(new(scribe))
	odd := task("b", "?")
	odd.Target, odd.Evaluator = "42", "astrology"
	torn := task("b", "?")
	torn.Target, torn.Evaluator = "no JSON", scoring.BySteps
	for _, test := range []struct {
		why        string
		task       *events.Task
		reason     string
		deliveries int
	}{
		{"a version that is not there yet may come", task("b", "?", 7), `playbook "b" has no version 7: its newest is 1`, 2},
		{"an evaluator that does not exist will not", odd, `evaluator "astrology" is none of`, 1},
		{"a target that its evaluator cannot read stays so", torn, "target of evaluator steps", 1},
	} {
		if e, refused := h.answer(test.task); !strings.Contains(refused, test.reason) {
			t.Errorf("%s: got %+v, %q; want a refusal with %q", test.why, e, refused, test.reason)
			continue
		}
		if l := h.letter(test.task); l.Deliveries != test.deliveries || !strings.Contains(l.Reason, test.reason) {
			t.Errorf("%s: got a letter after %d deliveries, %q; want %d", test.why, l.Deliveries, l.Reason, test.deliveries)
		}
	}
}

// TestAPinnedPromptDoesNotMoveWithTime: ages count in whole days, from the newest use in that version.
func TestAPinnedPromptDoesNotMoveWithTime(t *testing.T) {
	t.Parallel()
	h := build(t)
	w, err := h.store.Writer(t.Context(), "b")
	h.ok(err)
	for n, age := range []time.Duration{50 * time.Hour, 36 * time.Hour, 13 * time.Hour} {
		_, err = w.Commit(t.Context(), func(natskv.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Ops: bullet(uint64(n+1), 0), Time: time.Now().Add(-age)}}, nil
		})
		h.ok(err)
	}
	h.ok(w.Flush(t.Context()))
	d := h.desk(nil, Config{}, brisk)
	recency := func(pin *uint64) map[playbook.BulletID]float64 {
		found := map[playbook.BulletID]float64{}
		for _, s := range h.context(d, &events.ContextRequest{Query: "?", Playbook: pin, Explain: true}).Scores {
			found[s.ID] = s.Recency
		}
		return found
	}
	still := map[playbook.BulletID]float64{"misc-00001": 1 / 1.1, "misc-00002": 1, "misc-00003": 1}
	if got := recency(new(uint64(3))); !maps.Equal(got, still) {
		t.Errorf("pinned: got %v, want %v", got, still)
	}
	if got := recency(nil); len(got) != 3 || got["misc-00003"] >= 1/1.05 || got["misc-00002"] >= got["misc-00003"] {
		t.Errorf("not pinned: got %v, want ages from now", got)
	}
}
