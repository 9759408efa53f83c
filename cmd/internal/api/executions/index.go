// Package executions keeps an index of the stored executions of all playbooks in memory: the fields that lists filter by, and the
// outcomes, tokens and costs per version of the playbook and per day, and the errors of tools that agents repeat. An Index reads the stream once and then follows it, so that
// a page does not read the stream.
package executions

import (
	"context"
	"errors"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/reflector/rules"
)

// Limits of a playbook's memory. Beyond them the oldest cells are merged into one.
const (
	maxVersions = 2000
	maxDays     = 400
	maxRevised  = 50_000  // executions whose outcome came from feedback, of all playbooks
	maxRows     = 500_000 // executions of all playbooks that lists find without reading the stream
	maxDoubts   = 10_000  // executions whose outcome the Reflector doubts, of all playbooks
)

// pollDelay is the shortest interval of reads while executions arrive.
const pollDelay = 50 * time.Millisecond

// retryDelay is the pause after a failed read.
const retryDelay = 2 * time.Second

// Index is an index of executions. It is safe for concurrent use. Run fills it.
type Index struct {
	conn *bus.Conn

	mu      sync.RWMutex
	books   map[playbook.Book]*counts
	revised map[uint64]events.Outcome    // outcomes of executions after feedback, by sequence
	seq     uint64                       // last sequence that was read
	rows    []row                        // oldest first
	dropped bool                         // whether older rows were dropped
	bullets map[playbook.BulletID]uint32 // their numbers in rows
	doubts  []doubt                      // by the sequences of the executions
	read    uint64                       // last sequence of a reflection that was read
	maxRows int

	errorsMu sync.Mutex // guards errors, because an analysis takes longer than the rest
	errors   map[playbook.Book]*rules.Errors
}

// counts are the cells of a playbook.
type counts struct {
	total    split
	versions cells[uint64]
	days     cells[string]
}

// New returns an empty index.
func New(conn *bus.Conn) *Index {
	return &Index{conn: conn, books: map[playbook.Book]*counts{}, revised: map[uint64]events.Outcome{}, bullets: map[playbook.BulletID]uint32{}, maxRows: maxRows, errors: map[playbook.Book]*rules.Errors{}}
}

// Run reads the stored executions and reflections, and then new ones, until the context ends. It continues after failed reads.
func (x *Index) Run(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() { x.follow(ctx, events.StreamReflections, &x.read, x.addDoubt) })
	x.follow(ctx, events.StreamExecutions, &x.seq, func(s bus.Stored) error { return x.add(ctx, s) })
	following.Wait()
}

// follow calls add for each event of a stream after the sequence last, which add raises.
func (x *Index) follow(ctx context.Context, stream string, last *uint64, add func(bus.Stored) error) {
	for {
		x.mu.RLock()
		next := *last + 1
		x.mu.RUnlock()
		err := x.conn.Events.Poll(ctx, stream, ">", next, pollDelay, add)
		if ctx.Err() != nil {
			return
		}
		x.conn.Log().Warn().Err(err).Str("stream", stream).Msg("read executions; lists and curves are behind")
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryDelay):
		}
	}
}

// add adds a stored event.
func (x *Index) add(ctx context.Context, s bus.Stored) error {
	switch e := s.Event.(type) {
	case *events.Execution:
		x.addErrors(e)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.count(e)
		x.addRow(s.Seq, e)
	case *events.Feedback:
		if err := x.revise(ctx, e); err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
	default: // unreadable
		x.mu.Lock()
		defer x.mu.Unlock()
	}
	x.seq = s.Seq
	return nil
}

// revise replaces the outcome of an execution by that after feedback.
func (x *Index) revise(ctx context.Context, f *events.Feedback) error {
	seq, matches, err := f.Execution.Parse()
	if err != nil {
		return nil
	}
	found, err := x.conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if errors.Is(err, bus.ErrNotFound) {
		return nil // it has expired
	}
	if err != nil {
		return err
	}
	e, ok := found.(*events.Execution)
	if !ok || e.Book != f.Book {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	was, ok := x.revised[seq]
	if !ok {
		was = e.Outcome.Complete()
	}
	is := was.WithFeedback(f)
	if len(x.revised) >= maxRevised && !ok {
		for old := range x.revised { // a second feedback on this one would count from its first outcome
			delete(x.revised, old)
			break
		}
	}
	x.revised[seq] = events.Outcome{Label: is.Label, Score: is.Score, By: is.By}
	x.countOutcome(e, was, -1)
	x.countOutcome(e, is, 1)
	return nil
}

// of returns the cells that an execution belongs to.
func (x *Index) of(e *events.Execution) []*Cell {
	b := x.books[e.Book]
	if b == nil {
		b = &counts{versions: cells[uint64]{limit: maxVersions}, days: cells[string]{limit: maxDays}}
		x.books[e.Book] = b
	}
	arm := armOf(e)
	return []*Cell{b.total.cell(arm), b.versions.split(e.Version).cell(arm), b.days.split(e.Started.UTC().Format(time.DateOnly)).cell(arm)}
}

func (x *Index) count(e *events.Execution) {
	for _, cell := range x.of(e) {
		cell.Executions++
		cell.Usage = cell.Usage.Add(e.Usage)
	}
	x.countOutcome(e, e.Outcome.Complete(), 1)
}

func (x *Index) countOutcome(e *events.Execution, o events.Outcome, n int) {
	if !o.Known() {
		return
	}
	for _, cell := range x.of(e) {
		cell.known += n
		if o.Label == events.Success {
			cell.right += n
		}
		if o.Inferred {
			cell.Inferred += n
		}
	}
}
