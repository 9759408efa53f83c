package generator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/natsd"
	"debrief/playbook/natskv"
)

// TestMain fails the package when something outlives its test.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// brisk are waits for tests: what does not come is given up soon, what should come has all the time.
var brisk = waits{version: 50 * time.Millisecond, extras: 10 * time.Second, retry: 20 * time.Millisecond}

// desk is a desk that has read what is stored.
func (h *house) desk(e Embedder, cfg Config, w waits) *Desk {
	h.Helper()
	d := newDesk(h.conn, e, cfg, w)
	h.Cleanup(d.Close)
	d.Loaded(h.Context(), 10*time.Second)
	return d
}

// until waits for something to become true.
func (h *house) until(what string, is func() bool) {
	h.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatal("waited too long: " + what)
		}
	}
}

// happened stores an execution as if a generator had made it.
func (h *house) happened(session, question, answer string, more ...func(*events.Execution)) (*events.Execution, bus.Receipt) {
	h.Helper()
	e := made(session, question, answer, more...)
	r, err := h.conn.Publish(h.Context(), e, bus.Marks{})
	h.ok(err)
	return e, r
}

// happenedLongAgo stores an execution whose id the server does not know any more: a second one is no duplicate to it.
func (h *house) happenedLongAgo(session, question, answer string, more ...func(*events.Execution)) (*events.Execution, bus.Receipt) {
	h.Helper()
	e := made(session, question, answer, more...)
	return e, h.again(e)
}

// again stores an event once more, under no id.
func (h *house) again(e events.Event) bus.Receipt {
	h.Helper()
	subject, header, data, err := events.Encode(e)
	h.ok(err)
	ack, err := h.conn.JetStream().PublishMsg(h.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	h.ok(err)
	return bus.Receipt{Seq: ack.Sequence, Handle: events.NewHandle(ack.Sequence, e.EventID())}
}

// forgetIDs has the server remember ids no longer than it must.
func (h *house) forgetIDs() {
	h.Helper()
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, "KV_" + events.BucketWindow} {
		s, err := h.conn.JetStream().Stream(h.Context(), name)
		h.ok(err)
		cfg := s.CachedInfo().Config
		cfg.Duplicates = 100 * time.Millisecond
		_, err = h.conn.JetStream().UpdateStream(h.Context(), cfg)
		h.ok(err)
	}
}

// idsForgotten returns when the server has forgotten the ids that it knew at the call.
func (h *house) idsForgotten() {
	h.Helper()
	e := made("", "is it forgotten?", "aye")
	_, err := h.conn.Publish(h.Context(), e, bus.Marks{})
	h.ok(err)
	h.until("the server forgets ids", func() bool {
		r, err := h.conn.Publish(h.Context(), e, bus.Marks{})
		h.ok(err)
		return !r.Duplicate
	})
}

func made(session, question, answer string, more ...func(*events.Execution)) *events.Execution {
	task := string(events.NewID())
	e := &events.Execution{
		ID: events.ExecutionID("b", task, 0), TaskID: task, Session: session, Question: question, Answer: answer,
		Outcome: events.Outcome{Label: events.Success, Score: 1}, Started: time.Now().UTC(),
	}
	e.Book = "b"
	for _, change := range more {
		change(e)
	}
	return e
}

// recalls waits until a desk can recall what is stored so far.
func (h *house) recalls(d *Desk, r bus.Receipt) {
	h.Helper()
	d.memory.begin()
	h.until("the execution is read", func() bool { return d.memory.taken.Load() >= r.Seq })
}

// note keeps a reflection's note in the windows, as a Reflector does, and stores the reflection.
func (h *house) note(d *Desk, session, insight string) bus.Receipt {
	h.Helper()
	e, _ := h.happened(session, "?", "!")
	ref := &events.Reflection{
		ID: events.ReflectionID(e.ID, "", "t"), Execution: e.ID, Handle: "1-00000000", Reflector: "t", Session: session,
		Outcome: e.Outcome, KeyInsight: insight, Created: time.Now().UTC(),
	}
	ref.Book = "b"
	r, err := h.conn.Publish(h.Context(), ref, bus.Marks{})
	h.ok(err)
	h.ok(d.windows.AddNote(h.Context(), "b", events.NewNote(r.Handle, ref)))
	return r
}

// context is what a desk lays out for a query. It must not fail.
func (h *house) context(d *Desk, r *events.ContextRequest) *events.ContextReply {
	h.Helper()
	if r.Book == "" {
		r.Book = "b"
	}
	reply, err := d.Context(h.Context(), r)
	h.ok(err)
	return reply
}

// wrote puts an execution into its session's window so long ago that the server does not know the entry's id any more.
func (h *house) wrote(e *events.Execution, r bus.Receipt) {
	h.Helper()
	data, err := events.Marshal(events.NewInteraction(r.Handle, e))
	h.ok(err)
	h.place(events.BucketWindow, events.SessionKey(e.Book, e.Session), data)
}

// window is a session's window.
func (h *house) window(d *Desk, session string) []*events.Interaction {
	h.Helper()
	list, damaged, err := d.windows.Interactions(h.Context(), "b", session)
	h.ok(err)
	if damaged > 0 {
		h.Errorf("%d entries of session %q cannot be read", damaged, session)
	}
	return list
}

// text is all that a model would read.
func text(messages []chat.Message) string {
	var out strings.Builder
	for _, m := range messages {
		out.WriteString(m.Speaker + ": " + m.Text + "\n")
		for _, c := range m.Calls {
			out.WriteString(c.Tool + "(" + c.Arguments + ")\n")
		}
	}
	return out.String()
}

// recalled are the questions that a context quotes of earlier work.
func recalled(m []chat.Message) string {
	_, after, _ := strings.Cut(text(m), "[[begin earlier work that may bear on this")
	before, _, _ := strings.Cut(after, "[[end")
	return before
}

// says reports whether one of the remarks has all of these in it.
func says(remarks []string, all ...string) bool {
	for _, r := range remarks {
		has := true
		for _, s := range all {
			has = has && strings.Contains(r, s)
		}
		if has {
			return true
		}
	}
	return false
}

// concepts is an embedder that knows a few synonyms: texts about one thing have one direction, whatever their words.
type concepts struct {
	mu     sync.Mutex
	paid   map[string]int // texts that it was given, and how often
	calls  int
	size   int                        // of vectors; 0 is 8
	fault  func(texts []string) error // instead of an answer
	silent bool                       // it does not answer
}

func (c *concepts) Model() string { return "concepts" }

func (c *concepts) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	c.calls++
	fault, silent, size := c.fault, c.silent, max(c.size, 8)
	c.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if fault != nil {
		if err := fault(texts); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paid == nil {
		c.paid = make(map[string]int)
	}
	out := make([][]float32, len(texts))
	for i, t := range texts {
		c.paid[t]++
		v := make([]float32, size)
		v[size-1] = 0.1
		for k, words := range []string{"car automobile motor", "tree oak forest", "bread baker loaf", "ship vessel sea"} {
			for word := range strings.FieldsSeq(words) {
				if strings.Contains(t, word) {
					v[k]++
				}
			}
		}
		out[i] = v
	}
	return out, nil
}

// set changes it.
func (c *concepts) set(f func(*concepts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// mostPaid is how often one text was paid for, of those that have this in them.
func (c *concepts) mostPaid(of string) (times, texts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, n := range c.paid {
		if strings.Contains(t, of) {
			times, texts = max(times, n), texts+1
		}
	}
	return times, texts
}

var errDown = errors.New("the embedding server is down")

func down([]string) error { return errDown }

// drop deletes a stored message.
func (h *house) drop(stream string, r bus.Receipt) {
	h.Helper()
	s, err := h.conn.JetStream().Stream(h.Context(), stream)
	h.ok(err)
	h.ok(s.DeleteMsg(h.Context(), r.Seq))
}

// place puts bytes under a key of a bucket.
func (h *house) place(bucket, key string, data []byte) {
	h.Helper()
	m := &nats.Msg{Subject: "$KV." + bucket + "." + key, Header: events.SchemaHeader(), Data: data}
	_, err := h.conn.JetStream().PublishMsg(h.Context(), m)
	h.ok(err)
}

// lose deletes a bucket.
func (h *house) lose(bucket string) {
	h.Helper()
	h.ok(h.conn.JetStream().DeleteKeyValue(h.Context(), bucket))
}

// pair are two houses with one server, as two processes have it.
func pair(t *testing.T) (a, b *house) {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	var both [2]*house
	for i := range both {
		nc, err := srv.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		conn, err := bus.Open(t.Context(), nc, bus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		both[i] = &house{t, conn, natskv.New(conn.JetStream())}
	}
	return both[0], both[1]
}

// talker is a model that answers, and remembers every chat that it was shown.
type talker struct {
	mu    sync.Mutex
	chats [][]chat.Message
	says  func(asked string) string // default: "answer to" and the question's last word
}

func (m *talker) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chats = append(m.chats, p.Messages)
	asked := strings.Fields(p.Messages[len(p.Messages)-1].Text)
	answer := "answer to " + asked[len(asked)-1]
	if m.says != nil {
		answer = m.says(asked[len(asked)-1])
	}
	return chat.Reply{Text: fmt.Sprintf(`{"reasoning": "so", "bullet_ids": [], "final_answer": %q}`, answer), Model: "talker", Finish: "stop"}, nil
}

func (m *talker) last() []chat.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chats[len(m.chats)-1]
}

// hire runs a generator with a configuration until the test ends.
func (h *house) hire(m chat.Model, e Embedder, cfg Config, w waits) {
	h.Helper()
	cfg.Summaries = SummariesExtract
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	desk := newDesk(h.conn, e, cfg, w)
	desk.Loaded(ctx, 10*time.Second)
	go func() { done <- New(m, e, cfg).run(ctx, h.conn, desk) }()
	h.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			h.Error(err)
		}
	})
}

// asks has a task of a session answered.
func (h *house) asks(session, question string, change ...func(*events.Task)) *events.Execution {
	h.Helper()
	q := task("b", question)
	q.Session = session
	for _, f := range change {
		f(q)
	}
	e, refused := h.answer(q)
	if refused != "" {
		h.Fatal(refused)
	}
	return e
}
