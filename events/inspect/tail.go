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
	Chain []byte          // chain hash of the log up to this delta
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

// IsFrom reports whether an entry with one of KindsOf(role) is from the role: dead letters may be from another one.
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

// tailStream is a stream that Tail reads, and its next message.
type tailStream struct {
	name    string
	stream  jetstream.Stream
	subject string
	next    uint64
	head    *jetstream.RawStreamMsg
	atEnd   time.Time // when its end was last reached
}

// Tail calls fn for the messages of the streams of tasks, executions, reflections, deltas and dead letters, in the
// order of their time. It creates no consumer. With Follow it waits if the server does not answer. It may miss a task
// that is answered between two polls.
func Tail(ctx context.Context, c *bus.Conn, f TailFilter, fn func(*Entry) error) error {
	var all []*tailStream
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas, events.StreamDead} {
		s, err := c.JetStream().Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", name, natserr.AsTimeout(ctx, err))
		}
		state := s.CachedInfo().State
		w := &tailStream{name: name, stream: s, subject: events.Kind("*").Subject(f.Book), next: max(state.FirstSeq, 1)}
		if name == events.StreamDead {
			w.subject = events.DeadSubject("", f.Book)
		}
		switch {
		case !f.Since.IsZero():
			if w.next, err = w.at(ctx, state, f.Since); err != nil {
				return fmt.Errorf("read %s: %w", name, natserr.AsTimeout(ctx, err))
			}
		case state.LastSeq >= tailBacklog:
			w.next = max(w.next, state.LastSeq-tailBacklog+1)
		}
		all = append(all, w)
		if name == events.StreamTasks {
			for _, subject := range events.TaskSubjects(f.Book)[1:] { // w has the first
				owned := *w
				owned.subject = subject
				all = append(all, &owned)
			}
		}
	}
	show := func(e *Entry) error {
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) {
			return nil
		}
		return fn(e)
	}
	var recent []*Entry // the newest stored entries, until the end of the backlog
	inBacklog := f.Since.IsZero()
	down := false
	for {
		w, err := earliest(ctx, all)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && f.Follow && bus.Unreachable(err):
			if !down {
				down = true
				c.Log().Warn().Err(err).Msg("server does not answer: waiting")
			}
		case err != nil:
			return err
		default:
			down = false
		}
		if w != nil && bus.Withdrawn(w.head.Header) {
			w.next, w.head = w.head.Sequence+1, nil
			continue
		}
		if w != nil {
			e := w.entry(ctx, c)
			w.next, w.head = w.head.Sequence+1, nil
			switch {
			case !inBacklog:
				err = show(e)
			case len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind):
				if recent = append(recent, e); len(recent) > f.Last {
					recent = recent[1:]
				}
			}
			if err != nil {
				return err
			}
			continue
		}
		if inBacklog && !down {
			inBacklog = false
			for _, e := range recent {
				if err := fn(e); err != nil {
					return err
				}
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
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			failed = err
		}
		return err != nil || !m.Time.Before(t)
	})
	return first + uint64(n), failed
}

// entry decodes the next message of the stream.
func (w *tailStream) entry(ctx context.Context, c *bus.Conn) *Entry {
	m := w.head
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
