package generator

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// memory recalls executions: it follows their stream from its beginning and holds what it takes to find them. What is for
// evaluation is not in it. After a restart it reads the stream again; embeddings that were paid for are kept.
type memory struct {
	conn    *bus.Conn
	vectors *vectors
	scope   Recall
	index   *recall.Index
	debts   *debts

	begin   func() // reading; before anybody asks there is no use in it
	begun   chan struct{}
	stop    context.CancelFunc
	working sync.WaitGroup
	loaded  chan struct{} // closed when all that was stored at the start is in
	taken   atomic.Uint64 // the last sequence that is in
	goal    atomic.Uint64 // the last one at the start

	batch []recall.Item // of the goroutine that follows: read, and not in the index yet
}

// newMemory is a memory of so many bytes at the most. It reads from when somebody first asks: who answers tasks without
// sessions recalls nothing, and need not read every execution there is.
func newMemory(conn *bus.Conn, v *vectors, scope Recall, most int, retry time.Duration) *memory {
	ctx, stop := context.WithCancel(context.Background())
	m := &memory{
		conn: conn, vectors: v, scope: scope, stop: stop, begun: make(chan struct{}), loaded: make(chan struct{}),
		index: recall.New(recall.Options{MaxBytes: most, Excerpt: 1}),
	}
	m.begin = sync.OnceFunc(func() { close(m.begun) })
	m.debts = newDebts(v, retry, m.item, m.pay)
	m.working.Go(func() { m.follow(ctx) })
	m.working.Go(func() { m.debts.work(ctx) })
	return m
}

func (m *memory) close() {
	m.stop()
	m.working.Wait()
}

// follow reads what is stored, then what arrives, until the context ends.
func (m *memory) follow(ctx context.Context) {
	select {
	case <-m.begun:
	case <-ctx.Done():
		return
	}
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		before := m.taken.Load()
		err := m.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if m.taken.Load() > before {
			wait = time.Second
		}
		m.vectors.log.Warn().Err(err).Msg("recall: read executions")
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// read goes on where it stopped, and returns when it cannot.
func (m *memory) read(ctx context.Context) error {
	subject := events.KindExecution.Subject("")
	if !m.isLoaded() {
		s, err := m.conn.JetStream().Stream(ctx, events.StreamExecutions)
		if err != nil {
			return err
		}
		m.goal.Store(s.CachedInfo().State.LastSeq)
		err = m.conn.Scan(ctx, events.StreamExecutions, subject, m.taken.Load()+1, func(s bus.Stored) error { return m.take(ctx, s, embedBatch) })
		if err != nil {
			return err
		}
		m.flush(ctx)
		close(m.loaded)
	}
	return m.conn.Poll(ctx, events.StreamExecutions, subject, m.taken.Load()+1, pollSoon, func(s bus.Stored) error { return m.take(ctx, s, 1) })
}

// pollSoon is how often what arrives is read while much does: windows show the last turns, so recall need not.
const pollSoon = 200 * time.Millisecond

// readingPatience is how long a context waits for the memory to be read in. After it the context says how far that is.
const readingPatience = 200 * time.Millisecond

func (m *memory) isLoaded() bool {
	select {
	case <-m.loaded:
		return true
	default:
		return false
	}
}

// take reads one execution. So many go into the index at a time.
func (m *memory) take(ctx context.Context, s bus.Stored, batch int) error {
	if s.Seq <= m.taken.Load() {
		return nil
	}
	if bus.Unreachable(s.Err) {
		return s.Err // it is there, and a part of it could not be fetched
	}
	if e, ok := s.Event.(*events.Execution); ok && m.wants(e) {
		m.batch = append(m.batch, m.newItem(events.NewHandle(s.Seq, e.ID), e))
		if len(m.batch) >= batch {
			m.flush(ctx)
		}
	}
	m.taken.Store(s.Seq)
	return nil
}

// wants reports whether an execution can ever be recalled.
func (m *memory) wants(e *events.Execution) bool {
	return e.Purpose != events.Evaluate && (e.Session != "" || m.scope == RecallBook)
}

func (m *memory) newItem(h events.Handle, e *events.Execution) recall.Item {
	return recall.Item{Key: string(h), Groups: []string{m.group(e.Book, e.Session)}, Text: recallText(e)}
}

// group is where an execution is looked for: among those of its book or of its session. No book's name has a slash.
func (m *memory) group(b playbook.Book, session string) string {
	if m.scope == RecallBook {
		return string(b)
	}
	return string(b) + "/" + session
}

// flush puts the batch into the index, with the vectors that are kept. The others are owed theirs.
func (m *memory) flush(ctx context.Context) {
	texts := make([]string, len(m.batch))
	for i := range texts {
		texts[i] = m.batch[i].Text
	}
	for i, vector := range m.vectors.kept(ctx, texts) {
		item := m.batch[i]
		if vector != nil {
			item.Vector, item.Model = vector, m.vectors.model(vector)
		}
		m.put(item)
		if vector == nil {
			m.debts.owe(item.Key)
		}
	}
	m.batch = m.batch[:0]
}

func (m *memory) put(item recall.Item) {
	if err := m.index.Put(item); err != nil {
		m.vectors.log.Warn().Err(err).Str("execution", item.Key).Msg("cannot be recalled")
	}
}

// item reads an execution again that is owed a vector. Texts are not held for that: there may be very many.
func (m *memory) item(ctx context.Context, key string) (*recall.Item, error) {
	if !m.index.Has(key) {
		return nil, nil // let go since
	}
	e, err := m.find(ctx, events.Handle(key))
	if e == nil || err != nil {
		return nil, err
	}
	item := m.newItem(events.Handle(key), e)
	return &item, nil
}

// pay puts an item back with its vector.
func (m *memory) pay(item recall.Item) {
	if m.index.Has(item.Key) {
		m.put(item)
	}
}

// find is the execution of a handle, nil if it is not stored any more; then it is not looked for again.
func (m *memory) find(ctx context.Context, h events.Handle) (*events.Execution, error) {
	seq, is, err := h.Parse()
	if err != nil {
		return nil, err
	}
	found, err := m.conn.Find(ctx, events.StreamExecutions, seq, is)
	if errors.Is(err, bus.ErrGone) {
		m.index.Drop(string(h))
		return nil, nil
	}
	e, _ := found.(*events.Execution)
	return e, err
}

// recallText is what an execution is found by. What stands first counts for its vector, all of it for its words.
func recallText(e *events.Execution) string {
	const most = 16 << 10
	var out strings.Builder
	add := func(text string, bytes int) {
		if out.Len() < most && text != "" {
			out.WriteString(events.Beginning(text, bytes))
			out.WriteByte('\n')
		}
	}
	add(e.Question, 4000)
	add(e.Answer, 2000)
	add(e.Context, 1000)
	for i := range e.Steps {
		s := &e.Steps[i]
		if s.Speaker == chat.User {
			add(s.Text, 500)
		}
		for _, c := range s.Calls {
			add(c.Tool, 100)
			add(c.Arguments, 200)
			if c.Outcome.Failed() {
				add(c.Output, 300)
			}
		}
		if out.Len() >= most {
			break
		}
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD")
}

// minSimilarity is how near an execution must be to be found by its vector alone, as in adaptive-context.
const minSimilarity = 0.3

// serves reports whether anything may be recalled for a context.
func (m *memory) serves(o *order) bool {
	return o.limits.Recall > 0 && (o.session != "" || m.scope != RecallSession)
}

// recall finds older executions that bear on a query, the best first. Those that the session's window shows are passed
// over later, so there may be more than are wanted.
func (m *memory) recall(ctx context.Context, o *order, p past, q *question, missed *remarks) []*events.Interaction {
	m.begin()
	select { // where little was stored it is there in a moment
	case <-m.loaded:
	case <-ctx.Done():
	case <-time.After(readingPatience):
	}
	if !m.isLoaded() {
		missed.add("recall: still reading what happened, at %d of %d", m.taken.Load(), m.goal.Load())
	}
	query := recall.Query{
		Text: q.text, Vector: q.vector, Model: q.model, Group: m.group(o.book, o.session), MinSimilarity: minSimilarity,
		Top: o.limits.Recall + len(p.window) + len(p.marks) + 1, // and the execution itself
	}
	found, err := m.index.Search(query)
	if err != nil {
		missed.add("recall: %s", brief(ctx, err))
	}
	if m.vectors.embedder != nil && q.vector != nil && found.WithoutVector > 0 {
		missed.add("recall: %d executions have no vector of %s, and are found by words alone", found.WithoutVector, q.model)
	}
	if n := m.index.Stats().Evicted; n > 0 {
		missed.add("recall: the %d oldest executions are not in memory any more (--recall-memory)", n)
	}
	return m.fetch(ctx, found.Hits, o, p, missed)
}

// fetch reads what was found and the session's past does not have, all of it at once.
func (m *memory) fetch(ctx context.Context, hits []recall.Hit, o *order, p past, missed *remarks) []*events.Interaction {
	got, errs := make([]*events.Interaction, len(hits)), make([]error, len(hits))
	var reading sync.WaitGroup
	asked := 0
	for i, hit := range hits {
		h := events.Handle(hit.Key)
		if got[i] = p.interaction(h); got[i] != nil || asked > o.limits.Recall {
			continue
		}
		asked++
		reading.Go(func() {
			e, err := m.find(ctx, h)
			if errs[i] = err; e != nil {
				got[i] = events.NewInteraction(h, e)
			}
		})
	}
	reading.Wait()
	if err := errors.Join(errs...); err != nil {
		missed.add("recall: not all that was found could be read: %s", brief(ctx, err))
	}
	list := got[:0]
	seen := map[events.ID]bool{o.execution: true} // an execution may be stored twice
	for _, i := range got {
		if i != nil && !seen[i.ID] && !o.triedBefore(i.ID, 0) {
			seen[i.ID] = true
			list = append(list, i)
		}
	}
	return list
}
