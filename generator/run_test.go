package generator

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/window"
	"debrief/generator/scoring"
	"debrief/playbook"
)

// fixture is a test server with its streams.
type fixture struct {
	*testing.T
	conn  *bus.Conn
	store *deltalog.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	conn, _ := bustest.Open(t, bus.Policy{MaxAttempts: 2, BackoffMin: 10 * time.Millisecond, BackoffMax: 10 * time.Millisecond})
	return &fixture{t, conn, deltalog.New(conn.JetStream())}
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// start runs a generator until the test ends.
func (f *fixture) start(m chat.Model) { f.startGenerator(bustest.Must(New(m, nil, Config{}))) }

func (f *fixture) startGenerator(g *Generator) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- g.Run(ctx, f.conn) }()
	f.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.Error(err)
		}
	})
}

// commit commits one version of a playbook and flushes it.
func (f *fixture) commit(b playbook.Book, ops ...playbook.Op) {
	f.Helper()
	w, err := f.store.Writer(f.Context(), b)
	f.ok(err)
	_, err = w.Commit(f.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
		return []*playbook.Delta{{Covers: make([]playbook.Cover, 99), Ops: slices.Clone(ops)}}, nil
	})
	f.ok(err)
	f.ok(w.Flush(f.Context()))
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
	t := &events.Task{Book: b, ID: string(events.NewID()), Question: question}
	for _, v := range version {
		t.Playbook = &v
	}
	return t
}

// answer submits a task and returns its execution, or the reason of its dead letter.
func (f *fixture) answer(t *events.Task) (*events.Execution, string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 10*time.Second)
	defer cancel()
	reply, err := f.conn.Request(ctx, t, bus.PublishOptions{})
	f.ok(err)
	if reply.Error != "" {
		return nil, reply.Error
	}
	e := new(events.Execution)
	f.ok(events.Unmarshal(reply.Data, e))
	return e, ""
}

// deadLetter returns the dead letter of a task.
func (f *fixture) deadLetter(t *events.Task) *events.DeadLetter {
	f.Helper()
	var found *events.DeadLetter
	f.ok(f.conn.Events.Scan(f.Context(), events.StreamDead, events.DeadSubject(events.RoleGenerator, t.Book), 1, func(s bus.Stored) error {
		l := s.Event.(*events.DeadLetter)
		if e, err := events.Decode(l.Subject, l.Header, l.Data); err == nil && e.EventID() == t.EventID() {
			found = l
		}
		return nil
	}))
	if found == nil {
		f.Fatalf("no dead letter of task %s", t.ID)
	}
	return found
}

// recordingModel records its prompts. It cites a shown and an unknown bullet.
type recordingModel struct {
	mu      sync.Mutex
	prompts []string
}

func (s *recordingModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
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

func TestTaskUsesRequestedVersion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	f.commit("b", bullet(2, 2)...)
	f.commit("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001"})
	s := new(recordingModel)
	f.start(s)
	for _, test := range []struct {
		why     string
		task    *events.Task
		version uint64
		shown   []playbook.BulletID
		cited   []playbook.BulletID
	}{
		{"version 0 is the empty playbook", task("b", "?", 0), 0, nil, nil},
		{"an old version with a bullet removed since", task("b", "?", 1), 1, []playbook.BulletID{"misc-00001"}, []playbook.BulletID{"misc-00001"}},
		{"in the order of ids", task("b", "?", 2), 2, []playbook.BulletID{"misc-00001", "misc-00002"}, []playbook.BulletID{"misc-00001"}},
		{"the newest by its number", task("b", "?", 3), 3, []playbook.BulletID{"misc-00002"}, nil},
		{"the newest", task("b", "?"), 3, []playbook.BulletID{"misc-00002"}, nil},
		{"again, from the cache", task("b", "?", 1), 1, []playbook.BulletID{"misc-00001"}, []playbook.BulletID{"misc-00001"}},
		{"an unknown playbook", task("new", "?"), 0, nil, nil},
	} {
		e, refused := f.answer(test.task)
		if refused != "" {
			t.Errorf("%s: %s", test.why, refused)
			continue
		}
		if e.Version != test.version || !slices.Equal(shown(e), test.shown) || !slices.Equal(e.Cited, test.cited) {
			t.Errorf("%s: got version %d, shown %v, cited %v; want %d, %v, %v", test.why, e.Version, shown(e), e.Cited, test.version, test.shown, test.cited)
		}
		if e.ID != events.ExecutionID(test.task.Book, "", test.task.ID, 0) || e.Answer != "42" || e.Model != "scribe" || len(e.PromptSHA256) != 32 {
			t.Errorf("%s: got %+v", test.why, e)
		}
	}
}

func TestAllBulletsThatFitAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ops []playbook.Op
	for n := range uint64(40) {
		ops = append(ops, bullet(n+1, int(n%7))...)
	}
	ops = append(ops, playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00007", Status: playbook.Candidate})
	f.commit("b", ops...)
	s := new(recordingModel)
	f.start(s)
	e, refused := f.answer(task("b", "?"))
	p, err := f.store.PlaybookAt(t.Context(), "b", 1)
	f.ok(err)
	var want []playbook.BulletID
	for _, b := range p.Top(100) {
		want = append(want, b.ID)
	}
	slices.Sort(want)
	if refused != "" || len(want) != 39 || !slices.Equal(shown(e), want) || slices.Contains(want, "misc-00007") {
		t.Errorf("got %v %s, want %v", shown(e), refused, want)
	}
	for _, b := range e.Shown {
		if !strings.Contains(s.prompts[0], "["+string(b.ID)+"] "+b.Content) {
			t.Errorf("%s is recorded as shown and not in the prompt", b.ID)
		}
	}
}

func TestTargetIsNotInThePrompt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := new(recordingModel)
	f.start(s)
	for by, target := range map[string]string{scoring.ByText: "s3cret", scoring.ByNumber: "31337.5", scoring.BySteps: `{"answer": "31337.5", "steps": [{"name": "s3cret", "amount": "1"}]}`, scoring.ByList: "s3cret,31337", scoring.ByPattern: "s3cret", scoring.ByJSON: `["s3cret"]`} {
		q := task("b", "what is it?")
		q.Context, q.Target, q.Evaluator = "an invoice", target, by
		e, refused := f.answer(q)
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

// The answer was paid for. The outcome contains the error of the evaluator.
func TestAnswerIsStoredWhenEvaluatorFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command  string
		timeout  time.Duration
		feedback string
	}{
		"hangs":   {"sleep 600", 200 * time.Millisecond, "evaluator program hangs: timed out after 200ms"},
		"crashes": {"false", time.Minute, "evaluator program crashes: exit status 1"}, // on a busy machine it takes a while to start
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var p scoring.Program
			f.ok(p.UnmarshalText([]byte(name + "=" + test.command)))
			f.startGenerator(bustest.Must(New(new(recordingModel), nil, Config{Scorer: scoring.NewScorer(scoring.Config{Programs: []scoring.Program{p}, Timeout: test.timeout}, 2)})))
			q := task("b", "what is it?")
			q.Evaluator = "program:" + name
			e, refused := f.answer(q)
			want := events.Outcome{Label: events.Unknown, By: q.Evaluator, Feedback: test.feedback}
			if refused != "" || e.Answer == "" || !reflect.DeepEqual(e.Outcome, want) {
				t.Errorf("got %+v, %s; want an answer with %+v", e, refused, want)
			}
			stranger := task("b", "what is it?")
			stranger.Evaluator = "program:rm"
			_, refused = f.answer(stranger)
			if l := f.deadLetter(stranger); l.Code != events.DeadInvalid || !strings.Contains(refused, "configured programs are "+q.Evaluator) {
				t.Errorf("an unknown program: got %s, %q, want an error that lists the configured ones", l.Code, refused)
			}
		})
	}
}

func TestInvalidTasksAreDeadLettered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.commit("b", bullet(1, 0)...)
	f.start(new(recordingModel))
	odd := task("b", "?")
	odd.Target, odd.Evaluator = "42", "astrology"
	torn := task("b", "?")
	torn.Target, torn.Evaluator = "no JSON", scoring.BySteps
	for _, test := range []struct {
		why      string
		task     *events.Task
		code     events.DeadCode
		names    string
		attempts int
	}{
		{"a missing version may arrive", task("b", "?", 7), events.DeadError, "version 7", 2},
		{"an unknown evaluator stays unknown", odd, events.DeadInvalid, `evaluator "astrology"`, 1},
		{"an invalid target stays invalid", torn, events.DeadInvalid, "target", 1},
	} {
		e, refused := f.answer(test.task)
		if !strings.Contains(refused, test.names) {
			t.Errorf("%s: got %+v, %q; want an error that names %s", test.why, e, refused, test.names)
			continue
		}
		if l := f.deadLetter(test.task); l.Code != test.code || l.Attempts != test.attempts || l.Reason != refused {
			t.Errorf("%s: got dead letter %s after %d attempts, %q; want %s after %d", test.why, l.Code, l.Attempts, l.Reason, test.code, test.attempts)
		}
	}
}

// Ages count in whole days, from the newest use in the pinned version.
func TestPinnedPromptIsTimeIndependent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w, err := f.store.Writer(t.Context(), "b")
	f.ok(err)
	for n, age := range []time.Duration{50 * time.Hour, 36 * time.Hour, 13 * time.Hour} {
		_, err = w.Commit(t.Context(), func(deltalog.State) ([]*playbook.Delta, error) {
			return []*playbook.Delta{{Ops: bullet(uint64(n+1), 0), Time: time.Now().Add(-age)}}, nil
		})
		f.ok(err)
	}
	f.ok(w.Flush(t.Context()))
	cb := f.newBuilder(nil, Config{}, testTimeouts)
	recency := func(pin *uint64) map[playbook.BulletID]float64 {
		found := map[playbook.BulletID]float64{}
		for _, s := range f.context(cb, &events.ContextRequest{Query: "?", Playbook: pin, Explain: true}).Scores {
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

// TestOnlyWantedRecords: the write of a record is only for a task that wants one, or that is in a session.
func TestOnlyWantedRecords(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.startWith(&echoModel{}, nil, Config{}, testTimeouts)
	windows := window.New(f.conn.NATS(), f.conn.JetStream())
	for name, test := range map[string]struct {
		change func(*events.Task)
		want   bool
	}{
		"no":        {func(*events.Task) {}, false},
		"recorded":  {func(t *events.Task) { t.Record = true }, true},
		"a session": {func(t *events.Task) { t.Session = "s" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := task("b", "which? "+name)
			test.change(q)
			e, refused := f.answer(q)
			if refused != "" {
				t.Fatal(refused)
			}
			f.waitFor("the acknowledgement", func() bool {
				tasks, err := f.conn.JetStream().Consumer(t.Context(), events.StreamTasks, events.RoleGenerator)
				f.ok(err)
				return tasks.CachedInfo().NumAckPending == 0
			})
			seq, err := windows.FirstCopy(t.Context(), "b", window.EffectTurn, e.ID)
			f.ok(err)
			if (seq > 0) != test.want {
				t.Errorf("got a record at sequence %d, want one: %t", seq, test.want)
			}
		})
	}
}
