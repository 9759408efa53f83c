package ops

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/playbook"
)

// tailKinds are the kinds of the entries of a tail.
var tailKinds = []events.Kind{
	events.KindTask, events.KindExecution, events.KindFeedback, events.KindReflection, events.KindEdit, events.KindDelta, events.KindDead,
}

// tailFilter selects the messages of a tail.
type tailFilter struct {
	Book  playbook.Book // empty means all books
	Kinds []events.Kind // empty means all kinds
	Since time.Time     // stored at this time or later; zero means the newest Last entries
	// Last is the number of stored entries to start with. readTail looks for them in the last 1,000 messages of each
	// stream.
	Last   int
	Follow bool // continue with new messages until ctx ends
}

const (
	// tailBatch is the number of messages that a tail reads of a stream at a time.
	tailBatch = 1000
	// tailPollInterval is the interval at which a tail reads a stream again after its end. It polls because a work queue
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

// readTail calls fn for the messages of the streams of tasks, executions, reflections, deltas and dead letters, in the
// order of their time. It creates no consumer. With Follow it waits if the server does not answer. It may miss a task
// that is answered between two polls.
func readTail(ctx context.Context, c *bus.Conn, f tailFilter, fn func(*tailEntry) error) error {
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

// tail is the state of one call of readTail.
type tail struct {
	conn       *bus.Conn
	filter     tailFilter
	streams    []*tailStream
	reconnects uint64 // of the connection at the last read
}

// showNewest calls fn for the newest entries up to the end of all streams, at most filter.Last.
func (t *tail) showNewest(ctx context.Context, fn func(*tailEntry) error) error {
	var newest []*tailEntry
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
func (t *tail) next(ctx context.Context) (entries []*tailEntry, atEnd bool, err error) {
	for isDown := false; ; isDown = true {
		entries, atEnd, err = t.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case err == nil:
			isOther := func(e *tailEntry) bool { return len(t.filter.Kinds) > 0 && !slices.Contains(t.filter.Kinds, e.Kind) }
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

// openTail opens the streams that a tail reads, each at its first message. The stream of tasks has one entry for each of its subjects,
// because tailSubjects returns several.
func openTail(ctx context.Context, c *bus.Conn, f tailFilter) ([]*tailStream, error) {
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

// tailSubjects returns the subjects that a tail reads of a stream.
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
func (t *tail) read(ctx context.Context) (entries []*tailEntry, atEnd bool, err error) {
	reader := direct.NewReader(t.conn.NATS(), natserr.WatchOf(t.conn.JetStream()))
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
	slices.SortStableFunc(entries, func(a, b *tailEntry) int { return a.Time.Compare(b.Time) })
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
func (w *tailStream) entry(ctx context.Context, c *bus.Conn, m *direct.Message) *tailEntry {
	e := &tailEntry{Stream: w.name, Seq: m.Seq, Time: m.Stored(), Repeat: m.Header.Get(events.HeaderRepeat) != "", ID: strconv.FormatUint(m.Seq, 10)}
	var err error
	e.Kind, e.Book, err = events.ParseSubject(m.Subject)
	switch {
	case err != nil:
	case e.Kind == events.KindDelta:
		err = e.setDelta(m)
	default:
		e.Event, err = c.Events.Decode(ctx, m.Subject, m.Header, m.Data)
		if err == nil {
			e.ID = string(events.NewHandle(e.Seq, e.Event.EventID()))
		}
	}
	if err != nil {
		e.Problem = err.Error()
	}
	return e
}

// setDelta decodes the delta of an entry.
func (e *tailEntry) setDelta(m *direct.Message) (err error) {
	if err := events.CheckSchema(m.Header); err != nil {
		return err
	}
	e.Delta, err = events.DecodeDelta(m.Data)
	if err == nil {
		sum := sha256.Sum256(m.Data) // the chain of the log, of which the label of a version has the first digits
		e.ID = playbook.VersionLabel(e.Delta.Version, sum[:])
	}
	return err
}
