package bus

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
	"debrief/playbook"
)

// Entry is what a stream holds at a place, for somebody who watches.
type Entry struct {
	Stream string
	Seq    uint64
	Time   time.Time // when the server stored it
	Kind   events.Kind
	Book   playbook.Book
	Repeat bool

	Event events.Event    // nil for a delta, and where Err is set
	Delta *playbook.Delta // of a delta
	Chain []byte          // of the same: the hash of the log up to it
	Err   error           // why it cannot be read
}

// TailFilter says what Tail shows.
type TailFilter struct {
	Book  playbook.Book // empty is every one
	Kinds []events.Kind // none is all
	Since time.Time     // stored at or after it; zero is the Last
	// Last is how many entries come before what arrives, of the last 1,000 of each stream.
	Last   int
	Follow bool // go on with what arrives, until the context ends
}

const (
	lookBack = 1000
	// pollEvery is how often a stream that was read to its end is looked at again. A consumer would be told at once; a
	// work queue allows none beside the role's own, and one way for all keeps them in order.
	pollEvery = 200 * time.Millisecond
)

// watched is one stream that Tail reads, with the next message of it.
type watched struct {
	name    string
	stream  jetstream.Stream
	subject string
	next    uint64
	head    *jetstream.RawStreamMsg
	polled  time.Time // when it was last found read to its end
}

// Tail calls fn with what the streams of tasks, executions, reflections, deltas and dead letters hold, in order of time.
// It makes no consumer and changes nothing. While it follows it waits for a server that does not answer. A task that is
// answered within a moment may be gone before it is seen.
func (c *Conn) Tail(ctx context.Context, f TailFilter, fn func(*Entry) error) error {
	var all []*watched
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas, events.StreamDead} {
		s, err := c.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", name, unanswered(ctx, err))
		}
		state := s.CachedInfo().State
		w := &watched{name: name, stream: s, subject: events.Kind("*").Subject(f.Book), next: max(state.FirstSeq, 1)}
		if name == events.StreamDead {
			w.subject = events.DeadSubject("", f.Book)
		}
		switch {
		case !f.Since.IsZero():
			if w.next, err = w.at(ctx, state, f.Since); err != nil {
				return fmt.Errorf("read %s: %w", name, unanswered(ctx, err))
			}
		case state.LastSeq >= lookBack:
			w.next = max(w.next, state.LastSeq-lookBack+1)
		}
		all = append(all, w)
	}
	show := func(e *Entry) error {
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) {
			return nil
		}
		return fn(e)
	}
	var recent []*Entry // the last ones, until all that is stored has been seen
	behind := f.Since.IsZero()
	down := false
	for {
		w, err := earliest(ctx, all)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && f.Follow && Unreachable(err):
			if !down {
				down = true
				c.log.Warn().Err(err).Msg("the server does not answer; waiting for it")
			}
		case err != nil:
			return err
		default:
			down = false
		}
		if w != nil && withdrawn(w.head.Header) {
			w.next, w.head = w.head.Sequence+1, nil
			continue
		}
		if w != nil {
			e := c.entry(ctx, w)
			w.next, w.head = w.head.Sequence+1, nil
			switch {
			case !behind:
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
		if behind && !down {
			behind = false
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
		case <-time.After(pollEvery):
		}
	}
}

// earliest is the stream whose next message is the oldest, nil when all are read to their ends.
func earliest(ctx context.Context, all []*watched) (*watched, error) {
	var first *watched
	for _, w := range all {
		if w.head == nil && time.Since(w.polled) >= pollEvery {
			m, err := w.stream.GetMsg(ctx, w.next, jetstream.WithGetMsgSubject(w.subject))
			switch {
			case errors.Is(err, jetstream.ErrMsgNotFound):
				w.polled = time.Now()
			case err != nil:
				return nil, fmt.Errorf("read %s from %d: %w", w.name, w.next, unanswered(ctx, err))
			default:
				w.head, w.polled = m, time.Time{}
			}
		}
		if w.head != nil && (first == nil || w.head.Time.Before(first.head.Time)) {
			first = w
		}
	}
	return first, nil
}

// at is the first sequence that was stored at or after a time: messages are in order of it.
func (w *watched) at(ctx context.Context, state jetstream.StreamState, t time.Time) (uint64, error) {
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

// entry reads the next message of a stream.
func (c *Conn) entry(ctx context.Context, w *watched) *Entry {
	m := w.head
	e := &Entry{Stream: w.name, Seq: m.Sequence, Time: m.Time, Repeat: m.Header.Get(events.HeaderRepeat) != ""}
	if e.Kind, e.Book, e.Err = events.ParseSubject(m.Subject); e.Err != nil {
		return e
	}
	if e.Kind != events.KindDelta {
		e.Event, e.Err = c.decodeStored(ctx, m.Subject, m.Header, m.Data)
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
