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
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
)

// TestMain fails the package if a goroutine is still running after the tests.
func TestMain(m *testing.M) {
	bustest.Prepare()
	code := m.Run()
	if code == 0 {
		// nats.go leaves this goroutine if an upload to the object store ends before the goroutine has started.
		leftover := goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
		if err := goleak.Find(leftover); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// testTimeouts are short for conditions that should not occur and long for those that should.
var testTimeouts = timeouts{version: time.Second, optional: 10 * time.Second, retry: 20 * time.Millisecond}

// newBuilder returns a builder that has read the stored executions.
func (f *fixture) newBuilder(e Embedder, cfg Config, w timeouts) *ContextBuilder {
	f.Helper()
	cb := newBuilder(f.conn, e, cfg, w)
	f.Cleanup(cb.Close)
	cb.WaitLoaded(f.Context(), "b", 10*time.Second)
	return cb
}

// waitFor waits until done returns true.
func (f *fixture) waitFor(what string, done func() bool) {
	f.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatal("timed out: " + what)
		}
	}
}

// storeExecution stores an execution as a generator would.
func (f *fixture) storeExecution(session, question, answer string, more ...func(*events.Execution)) (*events.Execution, bus.Receipt) {
	f.Helper()
	e := newExecution(session, question, answer, more...)
	r, err := f.conn.Publish(f.Context(), e, bus.PublishOptions{})
	f.ok(err)
	return e, r
}

// storeOldExecution stores an execution whose id is no longer known to the server, so a copy is not a duplicate.
func (f *fixture) storeOldExecution(session, question, answer string, more ...func(*events.Execution)) (*events.Execution, bus.Receipt) {
	f.Helper()
	e := newExecution(session, question, answer, more...)
	return e, f.storeCopy(e)
}

// storeCopy stores an event again, without a message id.
func (f *fixture) storeCopy(e events.Event) bus.Receipt {
	f.Helper()
	subject, header, data, err := events.Encode(e)
	f.ok(err)
	ack, err := f.conn.JetStream().PublishMsg(f.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	f.ok(err)
	return bus.Receipt{Seq: ack.Sequence, Handle: events.NewHandle(ack.Sequence, e.EventID())}
}

// shortenDuplicateWindow sets the shortest duplicate window of the server.
func (f *fixture) shortenDuplicateWindow() {
	f.Helper()
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, "KV_" + events.BucketWindow} {
		s, err := f.conn.JetStream().Stream(f.Context(), name)
		f.ok(err)
		cfg := s.CachedInfo().Config
		cfg.Duplicates = 100 * time.Millisecond
		_, err = f.conn.JetStream().UpdateStream(f.Context(), cfg)
		f.ok(err)
	}
}

// waitDuplicateWindow waits until the server has dropped all ids known at the call.
func (f *fixture) waitDuplicateWindow() {
	f.Helper()
	e := newExecution("", "is it forgotten?", "aye")
	_, err := f.conn.Publish(f.Context(), e, bus.PublishOptions{})
	f.ok(err)
	f.waitFor("the server forgets ids", func() bool {
		r, err := f.conn.Publish(f.Context(), e, bus.PublishOptions{})
		f.ok(err)
		return !r.Duplicate
	})
}

func newExecution(session, question, answer string, more ...func(*events.Execution)) *events.Execution {
	task := string(events.NewID())
	e := &events.Execution{
		Book: "b",
		ID:   events.ExecutionID("b", "", task, 0), RunID: task, Session: session, Question: question, Answer: answer,
		Outcome: events.Outcome{Label: events.Success, Score: 1}, Started: time.Now().UTC(),
	}
	for _, change := range more {
		change(e)
	}
	return e
}

// waitRead waits until the builder can recall the execution.
func (f *fixture) waitRead(cb *ContextBuilder, r bus.Receipt) {
	f.Helper()
	cb.memory.start()
	f.waitFor("the execution is read", func() bool { return cb.memory.lastRead.Load() >= r.Seq })
}

// storeNote stores a reflection and its note, as a Reflector does.
func (f *fixture) storeNote(cb *ContextBuilder, session, question, insight string) bus.Receipt {
	f.Helper()
	e, _ := f.storeExecution(session, question, "!")
	ref := &events.Reflection{
		Book: "b",
		ID:   events.ReflectionID(e.ID, "", "t"), Execution: e.ID, Handle: "1-00000000", Reflector: "t", Model: "m", Session: session,
		Question: question, Outcome: e.Outcome, KeyInsight: insight, CorrectApproach: "take 4.30 for " + insight, ErrorIdentification: "1.20 was wrong for " + insight,
		Created: time.Now().UTC(),
	}
	r, err := f.conn.Publish(f.Context(), ref, bus.PublishOptions{})
	f.ok(err)
	f.ok(cb.windows.AddNote(f.Context(), "b", events.NewNote(r.Handle, ref)))
	return r
}

// context requests a context. It must not fail.
func (f *fixture) context(cb *ContextBuilder, r *events.ContextRequest) *events.ContextReply {
	f.Helper()
	if r.Book == "" {
		r.Book = "b"
	}
	reply, err := cb.Context(f.Context(), r)
	f.ok(err)
	return reply
}

// awaitVersion waits until the builder has a version of the playbook. On a busy machine one request may end before that.
func (f *fixture) awaitVersion(cb *ContextBuilder, version uint64) {
	f.Helper()
	for range 10 {
		if reply := f.context(cb, &events.ContextRequest{Query: "When?", MinVersion: version, DryRun: true}); !reply.Stale {
			return
		}
	}
	f.Fatalf("the builder does not reach version %d", version)
}

// putWindow writes an execution to its session's window, without a message id.
func (f *fixture) putWindow(e *events.Execution, r bus.Receipt) {
	f.Helper()
	data, err := events.Marshal(events.NewInteraction(r.Handle, e))
	f.ok(err)
	f.putRaw(events.BucketWindow, events.SessionKey(e.Book, "", e.Session), data)
}

// window returns the window of a session.
func (f *fixture) window(cb *ContextBuilder, session string) []*events.Interaction {
	f.Helper()
	list, damaged, err := cb.windows.Interactions(f.Context(), "b", "", session)
	f.ok(err)
	if damaged > 0 {
		f.Errorf("%d entries of session %q are invalid", damaged, session)
	}
	return list
}

// chatText returns the whole text of a chat.
func chatText(messages []chat.Message) string {
	var out strings.Builder
	for _, m := range messages {
		out.WriteString(m.Speaker + ": " + m.Text + "\n")
		for _, c := range m.Calls {
			out.WriteString(c.Tool + "(" + c.Arguments + ")\n")
		}
	}
	return out.String()
}

// recalled returns the quoted executions of a context.
func recalled(m []chat.Message) string {
	_, after, _ := strings.Cut(chatText(m), "[[begin earlier work that may bear on this")
	before, _, _ := strings.Cut(after, "[[end")
	return before
}

// containsAll reports whether one of the warnings contains all of these strings.
func containsAll(warnings []string, all ...string) bool {
	for _, r := range warnings {
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

// synonymEmbedder maps synonyms to the same direction.
type synonymEmbedder struct {
	mu       sync.Mutex
	embedded map[string]int // number of calls for each text
	calls    int
	size     int                        // dimension of the vectors; 0 means 8
	fail     func(texts []string) error // returns an error instead of vectors
	blocked  bool                       // Embed blocks until ctx ends
}

func (c *synonymEmbedder) Model() string { return "concepts" }

func (c *synonymEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	c.calls++
	fault, silent, size := c.fail, c.blocked, max(c.size, 8)
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
	if c.embedded == nil {
		c.embedded = make(map[string]int)
	}
	out := make([][]float32, len(texts))
	for i, t := range texts {
		c.embedded[t]++
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

// set changes the embedder.
func (c *synonymEmbedder) set(f func(*synonymEmbedder)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// maxEmbedded returns how often a matching text was embedded at most, and the number of matching texts.
func (c *synonymEmbedder) maxEmbedded(of string) (times, texts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, n := range c.embedded {
		if strings.Contains(t, of) {
			times, texts = max(times, n), texts+1
		}
	}
	return times, texts
}

var errDown = errors.New("embedding server is down")

func down([]string) error { return errDown }

// deleteMessage deletes a stored message.
func (f *fixture) deleteMessage(stream string, r bus.Receipt) {
	f.Helper()
	s, err := f.conn.JetStream().Stream(f.Context(), stream)
	f.ok(err)
	f.ok(s.DeleteMsg(f.Context(), r.Seq))
}

// putRaw writes bytes under a key of a bucket.
func (f *fixture) putRaw(bucket, key string, data []byte) {
	f.Helper()
	m := &nats.Msg{Subject: "$KV." + bucket + "." + key, Header: events.SchemaHeader(), Data: data}
	_, err := f.conn.JetStream().PublishMsg(f.Context(), m)
	f.ok(err)
}

// deleteBucket deletes a bucket.
func (f *fixture) deleteBucket(bucket string) {
	f.Helper()
	f.ok(f.conn.JetStream().DeleteKeyValue(f.Context(), bucket))
}

// newFixturePair returns two fixtures on one server, like two processes.
func newFixturePair(t *testing.T) (a, b *fixture) {
	t.Helper()
	connect := bustest.Server(t)
	var both [2]*fixture
	for i := range both {
		conn, err := bus.Open(t.Context(), connect(), bus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		both[i] = &fixture{t, conn, deltalog.New(conn.JetStream())}
	}
	return both[0], both[1]
}

// echoModel answers and records every chat.
type echoModel struct {
	mu     sync.Mutex
	chats  [][]chat.Message
	answer func(asked string) string // default: "answer to" and the last word of the question
}

func (m *echoModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chats = append(m.chats, p.Messages)
	asked := strings.Fields(p.Messages[len(p.Messages)-1].Text)
	answer := "answer to " + asked[len(asked)-1]
	if m.answer != nil {
		answer = m.answer(asked[len(asked)-1])
	}
	return chat.Reply{Text: fmt.Sprintf(`{"reasoning": "so", "bullet_ids": [], "final_answer": %q}`, answer), Model: "talker", Finish: "stop"}, nil
}

func (m *echoModel) last() []chat.Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chats[len(m.chats)-1]
}

// startWith runs a generator with a configuration until the test ends.
func (f *fixture) startWith(m chat.Model, e Embedder, cfg Config, w timeouts) {
	f.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	builder := newBuilder(f.conn, e, cfg, w)
	builder.WaitLoaded(ctx, "b", 10*time.Second)
	go func() { done <- bustest.Must(New(m, e, cfg)).run(ctx, f.conn, builder) }()
	f.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			f.Error(err)
		}
	})
}

// answerInSession submits a task of a session and waits for the answer.
func (f *fixture) answerInSession(session, question string, change ...func(*events.Task)) *events.Execution {
	f.Helper()
	q := task("b", question)
	q.Session = session
	for _, f := range change {
		f(q)
	}
	e, refused := f.answer(q)
	if refused != "" {
		f.Fatal(refused)
	}
	return e
}
