package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// Entry is one message of a stream, as Tail shows it.
type Entry struct {
	Stream string
	Seq    uint64
	Time   time.Time // when the server stored it
	Kind   events.Kind
	Book   playbook.Book
	Repeat bool

	Event events.Event    // nil for a delta, and if Err is set
	Delta *playbook.Delta // set for a delta
	Chain []byte          // SHA-256 of the message of a delta; the message contains the Chain of the delta before it
	Err   error           // why the message cannot be decoded
}

// Kinds returns the kinds of the entries that Tail reads.
func Kinds() []events.Kind {
	return []events.Kind{
		events.KindTask, events.KindExecution, events.KindFeedback, events.KindReflection, events.KindEdit, events.KindDelta, events.KindDead,
	}
}

// TailFilter selects the messages for Tail.
type TailFilter struct {
	Book  playbook.Book // empty means all books
	Kinds []events.Kind // empty means all kinds
	Since time.Time     // stored at this time or later; zero means the newest Last entries
	// Last is the number of stored entries to start with. Tail looks for them in the last 1,000 messages of each
	// stream.
	Last   int
	Follow bool // continue with new messages until ctx ends
}

const (
	// tailBatch is the number of messages that Tail reads of a stream at a time.
	tailBatch = 1000
	// tailPollInterval is the interval at which Tail reads a stream again after its end. It polls because a work queue
	// allows no second consumer.
	tailPollInterval = 200 * time.Millisecond
)

// tailStream has the messages of one subject of a stream.
type tailStream struct {
	name  string
	query direct.Query     // for the next messages
	last  time.Time        // when the last message that was read was stored; zero before the first one
	read  []direct.Message // read and not shown yet
}

// Tail calls fn for the messages of the streams of tasks, executions, reflections, deltas and dead letters, in the
// order of their time. It creates no consumer. With Follow it waits if the server does not answer. It may miss a task
// that is answered between two polls.
func Tail(ctx context.Context, c *bus.Conn, f TailFilter, fn func(*Entry) error) error {
	all, err := openTail(ctx, c, f)
	if err != nil {
		return err
	}
	t := &tail{conn: c, filter: f, streams: all, reconnects: c.NATS().Stats().Reconnects}
	if f.Since.IsZero() {
		if err := t.showNewest(ctx, fn); err != nil || !f.Follow {
			return err
		}
	}
	for {
		entries, atEnd, err := t.next(ctx)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := fn(e); err != nil {
				return err
			}
		}
		if atEnd && !f.Follow {
			return nil
		}
		if atEnd {
			if err := events.Sleep(ctx, tailPollInterval); err != nil {
				return err
			}
		}
	}
}

// tail is the state of one call of Tail.
type tail struct {
	conn       *bus.Conn
	filter     TailFilter
	streams    []*tailStream
	reconnects uint64 // of the connection at the last read
}

// showNewest calls fn for the newest entries up to the end of all streams, at most filter.Last.
func (t *tail) showNewest(ctx context.Context, fn func(*Entry) error) error {
	var newest []*Entry
	for isDone := false; !isDone; {
		entries, atEnd, err := t.next(ctx)
		if err != nil {
			return err
		}
		newest = append(newest, entries...)
		newest = newest[max(len(newest)-t.filter.Last, 0):]
		isDone = atEnd
	}
	for _, e := range newest {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next entries that the filter selects, and whether all streams are read to their ends. With Follow it waits while the
// server does not answer.
func (t *tail) next(ctx context.Context) (entries []*Entry, atEnd bool, err error) {
	for isDown := false; ; isDown = true {
		entries, atEnd, err = t.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case err == nil:
			isOther := func(e *Entry) bool { return len(t.filter.Kinds) > 0 && !slices.Contains(t.filter.Kinds, e.Kind) }
			return slices.DeleteFunc(entries, isOther), atEnd, nil
		case !t.filter.Follow || !bus.Unreachable(err):
			return nil, false, err
		case !isDown:
			t.conn.Log().Warn().Err(err).Msg("server does not answer: waiting")
		}
		if err := events.Sleep(ctx, tailPollInterval); err != nil {
			return nil, false, err
		}
	}
}

// openTail opens the streams that Tail reads, each at its first message. The stream of tasks has one entry for each of its subjects,
// because tailSubjects returns several.
func openTail(ctx context.Context, c *bus.Conn, f TailFilter) ([]*tailStream, error) {
	var all []*tailStream
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas, events.StreamDead} {
		s, err := c.JetStream().Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("open stream %s: %w", name, natserr.AsTimeout(ctx, err))
		}
		q := direct.Query{Since: f.Since}
		if last := s.CachedInfo().State.LastSeq; f.Since.IsZero() {
			q.From = max(last, tailBatch) - tailBatch + 1
		}
		for _, subject := range tailSubjects(name, f.Book) {
			q.Subject = subject
			all = append(all, &tailStream{name: name, query: q})
		}
	}
	return all, nil
}

// tailSubjects returns the subjects that Tail reads of a stream.
func tailSubjects(stream string, b playbook.Book) []string {
	switch stream {
	case events.StreamTasks:
		return events.TaskSubjects(b)
	case events.StreamDead:
		return []string{events.DeadSubject("", b)}
	}
	return []string{events.Kind("*").Subject(b)}
}

// errBatch ends a read after tailBatch messages.
var errBatch = errors.New("enough messages")

// read returns the next entries of all streams in the order of their time. atEnd is set at the end of all streams.
func (t *tail) read(ctx context.Context) (entries []*Entry, atEnd bool, err error) {
	reader := readerOf(t.conn)
	if n := t.conn.NATS().Stats().Reconnects; n != t.reconnects {
		for _, w := range t.streams {
			if err := w.resume(ctx, reader); err != nil {
				return nil, false, err
			}
		}
		t.reconnects = n
	}
	atEnd = true
	var until time.Time // all messages up to it were read; zero if all streams were read to their ends
	for _, w := range t.streams {
		err := reader.Read(ctx, w.name, w.query, func(m direct.Message) error {
			w.read = append(w.read, m)
			w.query.From, w.query.Since, w.last = m.Seq+1, time.Time{}, m.Stored()
			if len(w.read) >= tailBatch {
				return errBatch
			}
			return nil
		})
		switch {
		case errors.Is(err, errBatch):
			atEnd = false
			if until.IsZero() || w.last.Before(until) {
				until = w.last
			}
		case err != nil:
			return nil, false, fmt.Errorf("read %s: %w", w.name, err)
		}
	}
	// Show no message after until: a stream with unread messages may have an older one. It stays in w.read.
	for _, w := range t.streams {
		n := 0
		for n < len(w.read) && (until.IsZero() || !w.read[n].Stored().After(until)) {
			if m := &w.read[n]; !bus.Withdrawn(m.Header) {
				entries = append(entries, w.entry(ctx, t.conn, m))
			}
			n++
		}
		w.read = w.read[n:]
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int { return a.Time.Compare(b.Time) })
	return entries, atEnd, nil
}

// resume makes the next read begin by time if the stream no longer has the last message that was read. A server that crashed may use the
// last sequences again.
func (w *tailStream) resume(ctx context.Context, r *direct.Reader) error {
	if w.last.IsZero() {
		return nil
	}
	m, err := r.Get(ctx, w.name, w.query.From-1)
	if err != nil {
		return fmt.Errorf("read %s: %w", w.name, err)
	}
	if m == nil || !m.Stored().Equal(w.last) {
		w.query.From, w.query.Since = 0, w.last.Add(1)
	}
	return nil
}

// entry decodes a message of the stream.
func (w *tailStream) entry(ctx context.Context, c *bus.Conn, m *direct.Message) *Entry {
	e := &Entry{Stream: w.name, Seq: m.Seq, Time: m.Stored(), Repeat: m.Header.Get(events.HeaderRepeat) != ""}
	if e.Kind, e.Book, e.Err = events.ParseSubject(m.Subject); e.Err != nil {
		return e
	}
	if e.Kind != events.KindDelta {
		e.Event, e.Err = c.Events.Decode(ctx, m.Subject, m.Header, m.Data)
		return e
	}
	if e.Err = events.CheckSchema(m.Header); e.Err != nil {
		return e
	}
	if e.Delta, e.Err = events.DecodeDelta(m.Data); e.Err == nil {
		sum := sha256.Sum256(m.Data)
		e.Chain = sum[:]
	}
	return e
}
