package curator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// harness is a server with its streams, and what a test does with them.
type harness struct {
	*testing.T
	conn  *bus.Conn
	nc    *nats.Conn
	store *deltalog.Store
}

func build(t *testing.T) *harness {
	t.Helper()
	return buildLingering(t, time.Millisecond)
}

// buildPatient returns a harness in which an event has many attempts.
func buildPatient(t *testing.T) *harness {
	t.Helper()
	return buildWith(t, bus.Policy{Linger: time.Millisecond, MaxAttempts: 20})
}

// buildLingering returns a harness in which a batch waits that long for more events, from the start of the batch before.
func buildLingering(t *testing.T, linger time.Duration) *harness {
	t.Helper()
	return buildWith(t, bus.Policy{Linger: linger})
}

// buildWith returns a harness with a policy and short waits.
func buildWith(t *testing.T, p bus.Policy) *harness {
	t.Helper()
	p.BackoffMin, p.BackoffMax, p.HoldInterval, p.ProbeInterval = 10*time.Millisecond, 20*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	conn, nc := bustest.Open(t, p)
	return &harness{T: t, conn: conn, nc: nc, store: deltalog.New(conn.JetStream())}
}

// work runs a curator until the test ends.
func (h *harness) work(m chat.Model) {
	h.Helper()
	h.Cleanup(h.run(m))
}

// run runs a curator until it is stopped.
func (h *harness) run(m chat.Model) (stop func()) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- bustest.Must(curator.New(m, curator.Config{})).Run(ctx, h.conn) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			h.Error(err)
		}
	}
}

// buildForBatch returns a harness for workOnBatch. A delivered event is not in the queue of its book at once.
func buildForBatch(t *testing.T) *harness {
	t.Helper()
	return buildLingering(t, 2*time.Second)
}

// workOnBatch runs a curator that gets the events as one batch: a question keeps the book busy until they all wait.
func (h *harness) workOnBatch(m model, batch ...events.Event) {
	h.Helper()
	h.publish(lesson("b", "busy", "keeps the book busy"))
	asked, together := make(chan struct{}), make(chan struct{})
	h.work(model(func(ctx context.Context, p chat.Prompt) (string, error) {
		if !strings.Contains(p.Messages[1].Text, "keeps the book busy") {
			return m(ctx, p)
		}
		close(asked)
		<-together
		return nothing, nil
	}))
	<-asked
	var last uint64
	for _, e := range batch {
		last = h.publish(e)
	}
	h.lag(func(l bus.Lag) bool { return l.Last >= last })
	time.Sleep(100 * time.Millisecond) // the server has sent them, and the client has not read them yet
	close(together)
}

func (h *harness) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// reflection makes one on a book; the same name is the same reflection.
func reflection(b playbook.Book, name string, vote ...playbook.BulletID) *events.Reflection {
	execution := events.ExecutionID(b, "", name, 0)
	r := &events.Reflection{
		Book: b,
		ID:   events.ReflectionID(execution, "", "test"), Execution: execution, Handle: events.NewHandle(1, execution), Reflector: "test", Model: "m",
	}
	for _, id := range vote {
		r.Tags = append(r.Tags, events.BulletTag{ID: id, Tag: events.Helpful})
	}
	return r
}

func lesson(b playbook.Book, name, content string) *events.Reflection {
	r := reflection(b, name)
	r.KeyInsight = content
	r.Lessons = []events.Lesson{{Section: "others", Content: content}}
	return r
}

func (h *harness) publish(e events.Event) uint64 {
	h.Helper()
	r, err := h.conn.Publish(h.Context(), e, bus.PublishOptions{})
	h.ok(err)
	return r.Seq
}

// again stores an event once more, as long after the first time as the server's memory for ids is short.
func (h *harness) again(e events.Event) {
	h.Helper()
	subject, header, data, err := events.Encode(e)
	h.ok(err)
	_, err = h.conn.JetStream().PublishMsg(h.Context(), &nats.Msg{Subject: subject, Header: header, Data: data})
	h.ok(err)
}

// edit has a person change a book and returns what the curator decided.
func (h *harness) edit(b playbook.Book, ops ...playbook.Op) events.EditReply {
	h.Helper()
	return h.ask(b, &events.Edit{Ops: ops})
}

// ask has a person ask for something and returns what the curator decided.
func (h *harness) ask(b playbook.Book, e *events.Edit) events.EditReply {
	h.Helper()
	e.Book, e.ID, e.Author, e.Reason = b, events.NewID(), "ann", "test"
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
	defer cancel()
	reply, err := h.conn.Request(ctx, e, bus.PublishOptions{})
	h.ok(err)
	if reply.Error != "" {
		h.Fatalf("edit: %s", reply.Error)
	}
	var d events.EditReply
	h.ok(events.Unmarshal(reply.Data, &d))
	return d
}

func add(content string) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Section: "others", Content: content}
}

// until waits for a version of a book's view that is as described, and returns it.
func (h *harness) until(b playbook.Book, what string, is func(*playbook.Playbook) bool) *playbook.Playbook {
	h.Helper()
	f, wait, err := h.store.Follow(h.Context(), b)
	h.ok(err)
	defer wait()
	ctx, cancel := context.WithTimeout(h.Context(), time.Minute)
	defer cancel()
	for {
		var p *playbook.Playbook
		f.Read(func(now *playbook.Playbook, _ []byte) { p = now.Clone() })
		if is(p) {
			return p
		}
		if err := f.Wait(ctx, p.Version()+1); err != nil {
			h.Fatalf("%s: not so at version %d: %v", what, p.Version(), err)
		}
	}
}

func helpful(p *playbook.Playbook, id playbook.BulletID) int {
	if b := p.Bullet(id); b != nil {
		return b.Helpful
	}
	return -1
}

// whole checks that a book's view is what its log folds to, and returns it.
func (h *harness) whole(b playbook.Book) *playbook.Playbook {
	h.Helper()
	last := h.edit(b, add("the end of "+h.Name()+", "+events.ShortID(events.NewID()))).Version
	view := h.until(b, "the last edit", func(p *playbook.Playbook) bool { return p.Version() >= last })
	fold, err := h.store.PlaybookAt(h.Context(), b, view.Version())
	h.ok(err)
	if fold.StateHash() != view.StateHash() || fold.Checksum() != view.Checksum() || fold.LastMinted() != view.LastMinted() {
		h.Errorf("book %s: the view at version %d is not what the log folds to", b, view.Version())
	}
	return view
}

type model func(ctx context.Context, p chat.Prompt) (string, error)

func (m model) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	text, err := m(ctx, p)
	return chat.Reply{Text: text, Model: "test", Finish: "stop"}, err
}

const nothing = `{"reasoning": "nothing new", "operations": []}`

// commit writes the delta of one vote as a curator would, and neither flushes nor acks.
func (h *harness) commit(r *events.Reflection, seq uint64) {
	h.Helper()
	curator.AddDeltas(h.T, h.store, "b", playbook.Delta{Covers: []playbook.Cover{r.Cover(seq)}, Ops: []playbook.Op{
		{Kind: playbook.Tag, Bullet: r.Tags[0].ID, Helpful: 1, Support: []int{0}},
	}})
}

// lag waits until the curators' durable is as described; the server tells nobody, so it is asked.
func (h *harness) lag(is func(bus.Lag) bool) {
	h.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		lag, err := h.conn.Consumers.Lag(h.Context(), events.RoleCurator)
		h.ok(err)
		if is(lag) {
			return
		}
		if time.Now().After(deadline) {
			h.Fatalf("still at %+v", lag)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// floor waits until everything up to a sequence is settled.
func (h *harness) floor(seq uint64) {
	h.Helper()
	h.lag(func(l bus.Lag) bool { return l.Floor >= seq })
}
