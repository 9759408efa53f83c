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
	"debrief/playbook/text"
)

// memory recalls executions. It follows their stream from the beginning and indexes them. It skips executions for
// evaluation. After a restart it reads the stream again; cached embeddings are not computed again.
type memory struct {
	conn       *bus.Conn
	embeddings *embeddingCache
	scope      Recall
	index      *recall.Index
	queue      *embedQueue

	start    func()        // closes started; the first search calls it
	started  chan struct{} // follow waits for it
	stop     context.CancelFunc
	running  sync.WaitGroup
	loaded   chan struct{} // closed when all executions that were stored at the start are indexed
	lastRead atomic.Uint64 // sequence of the last message that was read
	target   atomic.Uint64 // last sequence of the stream at the start

	// Only follow uses these.
	batch   []recall.Item // read, but not indexed yet
	created time.Time     // when the stream was created
}

// newMemory returns a memory of at most maxBytes. It starts to read at the first search, because tasks without
// sessions recall nothing.
func newMemory(conn *bus.Conn, embeddings *embeddingCache, scope Recall, maxBytes int, retry time.Duration) *memory {
	ctx, stop := context.WithCancel(context.Background())
	m := &memory{
		conn: conn, embeddings: embeddings, scope: scope, stop: stop, started: make(chan struct{}), loaded: make(chan struct{}),
		index: recall.New(maxBytes),
	}
	m.start = sync.OnceFunc(func() { close(m.started) })
	m.queue = newEmbedQueue(embeddings, retry, m.loadItem, m.storeVector)
	m.running.Go(func() { m.follow(ctx) })
	m.running.Go(func() { m.queue.run(ctx) })
	return m
}

// close stops the background goroutines.
func (m *memory) close() {
	m.stop()
	m.running.Wait()
}

// follow reads stored and new executions until ctx ends.
func (m *memory) follow(ctx context.Context) {
	select {
	case <-m.started:
	case <-ctx.Done():
		return
	}
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, 30*time.Second) {
		before := m.lastRead.Load()
		err := m.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if m.lastRead.Load() > before {
			pause = time.Second
		}
		m.embeddings.log.Warn().Err(err).Msg("recall: read executions")
		_ = events.Sleep(ctx, pause)
	}
}

// read reads the executions after the last one that was read. It returns at the first error.
func (m *memory) read(ctx context.Context) error {
	subject := events.KindExecution.Subject("")
	if !m.isLoaded() {
		s, err := m.conn.JetStream().Stream(ctx, events.StreamExecutions)
		if err != nil {
			return err
		}
		m.target.Store(s.CachedInfo().State.LastSeq)
		err = m.conn.Events.Scan(ctx, events.StreamExecutions, subject, m.lastRead.Load()+1, func(s bus.Stored) error {
			return m.add(ctx, s, embedBatch)
		})
		if err != nil {
			return err
		}
		m.flush(ctx)
		close(m.loaded)
	}
	err := m.conn.Events.Follow(ctx, events.StreamExecutions, subject, m.lastRead.Load()+1, pollInterval, m.checkLoss, func(s bus.Stored) error {
		return m.add(ctx, s, 1)
	})
	if errors.Is(err, errLost) { // the next call follows from the start; searches drop the lost executions when they find them
		m.lastRead.Store(0)
	}
	return err
}

var errLost = errors.New("the stream of executions has lost messages: its sequences began again")

// checkLoss returns errLost if the stream is a new one, or ends before the last message that was read.
func (m *memory) checkLoss(stream bus.Extent) error {
	isNew := !m.created.IsZero() && !stream.Created.Equal(m.created)
	m.created = stream.Created
	if isNew || stream.Last < m.lastRead.Load() {
		return errLost
	}
	return nil
}

// pollInterval bounds how often new executions are read under load. The last turns are in windows, so recall can be
// late.
const pollInterval = 200 * time.Millisecond

// loadTimeout is the maximum time that a context waits for the memory or the past tasks to be read for the first time. After it the context has
// a warning about the progress.
const loadTimeout = 200 * time.Millisecond

// isLoaded reports whether loaded is closed.
func (m *memory) isLoaded() bool {
	select {
	case <-m.loaded:
		return true
	default:
		return false
	}
}

// add adds a stored execution to the batch. It indexes the batch when it has as many executions as batch.
func (m *memory) add(ctx context.Context, s bus.Stored, batch int) error {
	if s.Seq <= m.lastRead.Load() {
		return nil
	}
	if bus.Unreachable(s.Err) {
		return s.Err // stored, but its payload is unavailable
	}
	if e, ok := s.Event.(*events.Execution); ok && m.isRecallable(e) {
		m.batch = append(m.batch, m.newItem(events.NewHandle(s.Seq, e.ID), e))
		if len(m.batch) >= batch {
			m.flush(ctx)
		}
	}
	m.lastRead.Store(s.Seq)
	return nil
}

// isRecallable reports whether an execution can be recalled under the configured scope.
func (m *memory) isRecallable(e *events.Execution) bool {
	return e.Purpose != events.Evaluate && (e.Session != "" || m.scope == RecallBook)
}

// newItem returns the item of an execution for the index, without a vector.
func (m *memory) newItem(handle events.Handle, e *events.Execution) recall.Item {
	return recall.Item{Key: string(handle), Groups: []string{m.group(e.Book, e.Owner, e.Session)}, Text: recallText(e)}
}

// group returns the search group of an execution: the runs of its owner in its playbook, or in its session. The names of playbooks
// and owners contain no slash.
func (m *memory) group(b playbook.Book, owner, session string) string {
	group := string(b) + "/" + owner
	if m.scope == RecallBook {
		return group
	}
	return group + "/" + session
}

// flush moves the batch to the index, with cached vectors. Items without a cached vector are queued for the embedder.
func (m *memory) flush(ctx context.Context) {
	texts := make([]string, len(m.batch))
	for i := range texts {
		texts[i] = m.batch[i].Text
	}
	for i, vector := range m.embeddings.cached(ctx, texts) {
		item := m.batch[i]
		if vector != nil {
			item.Vector, item.Model = vector, m.embeddings.modelName(vector)
		}
		m.put(item)
		if vector == nil {
			m.queue.add(item.Key)
		}
	}
	m.batch = m.batch[:0]
}

// put adds an item to the index. It only logs an error.
func (m *memory) put(item recall.Item) {
	if err := m.index.Put(item); err != nil {
		m.embeddings.log.Warn().Err(err).Str("execution", item.Key).Msg("recall: index execution")
	}
}

// loadItem reads the execution of a queued item again. The queue holds no texts, because it may be very long.
func (m *memory) loadItem(ctx context.Context, key string) (*recall.Item, error) {
	if !m.index.Has(key) {
		return nil, nil // evicted since
	}
	e, err := m.readExecution(ctx, events.Handle(key))
	if e == nil || err != nil {
		return nil, err
	}
	item := m.newItem(events.Handle(key), e)
	return &item, nil
}

// storeVector replaces an item by one with its vector.
func (m *memory) storeVector(item recall.Item) {
	if m.index.Has(item.Key) {
		m.put(item)
	}
}

// readExecution returns the execution of a handle. If it has expired, readExecution returns nil and removes it from
// the index.
func (m *memory) readExecution(ctx context.Context, handle events.Handle) (*events.Execution, error) {
	seq, matches, err := handle.Parse()
	if err != nil {
		return nil, err
	}
	found, err := m.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		m.index.Drop(string(handle))
		return nil, nil
	}
	e, _ := found.(*events.Execution)
	return e, err
}

// recallText returns the text by which an execution is found. The words are those of the whole text. The vector is that of its beginning, see
// maxEmbeddedBytes.
func recallText(e *events.Execution) string {
	const maxBytes = 16 << 10
	var out strings.Builder
	add := func(s string, bytes int) {
		if out.Len() < maxBytes && s != "" {
			out.WriteString(text.Clip(s, bytes))
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
		if out.Len() >= maxBytes {
			break
		}
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD")
}

// minSimilarity is the minimum cosine for a hit by vector alone.
const minSimilarity = 0.3

// appliesTo reports whether anything can be recalled for a context.
func (m *memory) appliesTo(req *contextRequest) bool {
	return req.limits.Recall > 0 && (req.session != "" || m.scope != RecallSession)
}

// search returns older executions that are relevant to a query, the best first. There may be more than the limit, because the assembly removes
// executions that the window shows.
func (m *memory) search(
	ctx context.Context, req *contextRequest, history sessionHistory, q *queryEmbedding, forgotten *forgottenFilter, warns *warnings,
) []*events.Interaction {
	m.start()
	select { // a small stream is loaded within the timeout
	case <-m.loaded:
	case <-ctx.Done():
	case <-time.After(loadTimeout):
	}
	if !m.isLoaded() {
		warns.add("recall: still loading executions, at %d of %d", m.lastRead.Load(), m.target.Load())
	}
	query := recall.Query{
		Text: q.text, Vector: q.vector, Model: q.modelName, Group: m.group(req.book, req.owner, req.session), MinSimilarity: minSimilarity,
		Limit: req.limits.Recall + len(history.window) + len(history.marks) + 1, // plus the execution itself
	}
	found, err := m.index.Search(query)
	if err != nil {
		warns.add("recall: %s", shortError(ctx, err))
	}
	if m.embeddings.embedder != nil && q.vector != nil && found.NotCompared > 0 {
		warns.add("recall: %d executions have no vector of %s, found by words only", found.NotCompared, q.modelName)
	}
	if n := m.index.Stats().Evicted; n > 0 {
		warns.add("recall: the %d oldest executions were evicted from memory (--recall-memory)", n)
	}
	return m.fetch(ctx, found.Hits, req, history, forgotten, warns)
}

// fetch returns the executions of hits, each once, without the execution itself, earlier rounds and forgotten executions. It takes those of the
// session from history, and reads the others in parallel.
func (m *memory) fetch(
	ctx context.Context, hits []recall.Hit, req *contextRequest, history sessionHistory, forgotten *forgottenFilter, warns *warnings,
) []*events.Interaction {
	interactions, errs := make([]*events.Interaction, len(hits)), make([]error, len(hits))
	var reading sync.WaitGroup
	requests, maxRequests := 0, req.limits.Recall+1 // one more, because the execution itself may be a hit
	for i, hit := range hits {
		handle := events.Handle(hit.Key)
		interactions[i] = history.interaction(handle)
		if interactions[i] != nil || requests == maxRequests {
			continue
		}
		requests++
		reading.Go(func() {
			e, err := m.readExecution(ctx, handle)
			errs[i] = err
			if e == nil { // expired, or an error
				return
			}
			if found := events.NewInteraction(handle, e); !forgotten.isForgotten(found, e.Session) {
				interactions[i] = found
			}
		})
	}
	reading.Wait()
	if err := errors.Join(errs...); err != nil {
		warns.add("recall: read executions: %s", shortError(ctx, err))
	}
	list := interactions[:0]
	seen := map[events.ID]bool{req.execution: true} // an execution may be stored twice
	for _, in := range interactions {
		if in != nil && !seen[in.ID] && !req.isEarlierRound(in.ID, unknownTurn) {
			seen[in.ID] = true
			list = append(list, in)
		}
	}
	return list
}
