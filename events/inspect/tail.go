package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
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
	Chain []byte          // SHA-256 of the message of the delta, which has the hash of the delta before it
	Err   error           // why the message cannot be decoded
}

// Kinds returns the kinds of the entries that Tail reads.
func Kinds() []events.Kind {
	return []events.Kind{
		events.KindTask, events.KindExecution, events.KindFeedback, events.KindReflection, events.KindEdit, events.KindDelta, events.KindDead,
	}
}

// KindsOf returns the kinds of the results of a role and of its dead letters. It returns nil for an unknown role.
func KindsOf(role string) []events.Kind {
	switch role {
	case events.RoleGenerator:
		return []events.Kind{events.KindExecution, events.KindDead}
	case events.RoleReflector:
		return []events.Kind{events.KindReflection, events.KindDead}
	case events.RoleCurator:
		return []events.Kind{events.KindDelta, events.KindDead}
	}
	return nil
}

// IsFrom reports whether an entry, whose kind must be one of KindsOf(role), is from the role. Only a dead letter can be from another one.
func (e *Entry) IsFrom(role string) bool {
	dead, ok := e.Event.(*events.DeadLetter)
	return !ok || dead.Role == role
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
	tailBacklog = 1000
	// tailPollInterval is the interval at which Tail reads a stream again after its end. It polls because a work queue
	// allows no second consumer. One method for all streams keeps their messages in order.
	tailPollInterval = 200 * time.Millisecond
)

// selects reports whether an entry has one of the kinds.
func (f *TailFilter) selects(e *Entry) bool {
	return len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)
}

// tailStream is a stream that Tail reads, and its next message.
type tailStream struct {
	name    string
	stream  jetstream.Stream
	subject string
	next    uint64                  // sequence at which the search for the next message begins
	head    *jetstream.RawStreamMsg // the next message; nil if it was not read yet
	atEnd   time.Time               // when the end of the stream was last reached; zero if head is set
}

// Tail calls fn for the messages of the streams of tasks, executions, reflections, deltas and dead letters, in the
// order of their time. It creates no consumer. With Follow it waits if the server does not answer. It may miss a task
// that is answered between two polls.
func Tail(ctx context.Context, c *bus.Conn, f TailFilter, fn func(*Entry) error) error {
	all, err := openTail(ctx, c, f)
	if err != nil {
		return err
	}
	inBacklog := f.Since.IsZero()
	var recent []*Entry // the newest selected entries of the backlog
	isDown := false     // the server does not answer
	for {
		w, err := earliest(ctx, all) // nil at the end of all streams, and with an error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !(f.Follow && bus.Unreachable(err)):
			return err
		case err != nil && !isDown:
			c.Log().Warn().Err(err).Msg("server does not answer: waiting")
		}
		isDown = err != nil
		if w != nil {
			e := w.take(ctx, c)
			switch {
			case e == nil, !f.selects(e): // left out
			case inBacklog:
				recent = append(recent, e)
				if len(recent) > f.Last {
					recent = recent[1:]
				}
			default:
				if err := fn(e); err != nil {
					return err
				}
			}
			continue
		}
		if inBacklog && !isDown {
			inBacklog = false
			if err := callEach(recent, fn); err != nil {
				return err
			}
			recent = nil
		}
		if !f.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(tailPollInterval):
		}
	}
}

// callEach calls fn for each entry until it returns an error.
func callEach(entries []*Entry, fn func(*Entry) error) error {
	for _, e := range entries {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
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
		state := s.CachedInfo().State
		w := tailStream{name: name, stream: s, next: max(state.FirstSeq, 1)}
		switch {
		case !f.Since.IsZero():
			w.next, err = w.at(ctx, state, f.Since)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", name, natserr.AsTimeout(ctx, err))
			}
		case state.LastSeq >= tailBacklog:
			w.next = max(w.next, state.LastSeq-tailBacklog+1)
		}
		for _, subject := range tailSubjects(name, f.Book) {
			one := w
			one.subject = subject
			all = append(all, &one)
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

// earliest returns the stream with the oldest next message, or nil at the end of all streams.
func earliest(ctx context.Context, all []*tailStream) (*tailStream, error) {
	var first *tailStream
	for _, w := range all {
		if w.head == nil && time.Since(w.atEnd) >= tailPollInterval {
			m, err := w.stream.GetMsg(ctx, w.next, jetstream.WithGetMsgSubject(w.subject))
			switch {
			case errors.Is(err, jetstream.ErrMsgNotFound):
				w.atEnd = time.Now()
			case err != nil:
				return nil, fmt.Errorf("read %s from %d: %w", w.name, w.next, natserr.AsTimeout(ctx, err))
			default:
				w.head, w.atEnd = m, time.Time{}
			}
		}
		if w.head != nil && (first == nil || w.head.Time.Before(first.head.Time)) {
			first = w
		}
	}
	return first, nil
}

// at returns the first sequence that was stored at t or later. It uses a binary search, because messages are in order
// of time.
func (w *tailStream) at(ctx context.Context, state jetstream.StreamState, t time.Time) (uint64, error) {
	first := max(state.FirstSeq, 1)
	if state.LastSeq < first {
		return first, nil
	}
	var failed error
	n := sort.Search(int(state.LastSeq-first+1), func(i int) bool {
		m, err := w.stream.GetMsg(ctx, first+uint64(i), jetstream.WithGetMsgSubject(">"))
		isEnd := errors.Is(err, jetstream.ErrMsgNotFound)
		if err != nil && !isEnd {
			failed = err
		}
		return err != nil || !m.Time.Before(t)
	})
	return first + uint64(n), failed
}

// take returns the entry of the next message and moves on. It returns nil for a withdrawn dead letter.
func (w *tailStream) take(ctx context.Context, c *bus.Conn) *Entry {
	m := w.head
	w.next, w.head = m.Sequence+1, nil
	if bus.Withdrawn(m.Header) {
		return nil
	}
	return w.entry(ctx, c, m)
}

// entry decodes a message of the stream.
func (w *tailStream) entry(ctx context.Context, c *bus.Conn, m *jetstream.RawStreamMsg) *Entry {
	e := &Entry{Stream: w.name, Seq: m.Sequence, Time: m.Time, Repeat: m.Header.Get(events.HeaderRepeat) != ""}
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
