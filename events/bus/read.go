package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/direct"
	"debrief/playbook"
)

// ErrStop ends a read without an error. The callback returns it.
var ErrStop = errors.New("stop reading")

// Reader reads stored events. Most methods select them by a stream and a subject, for example events.StreamTasks and
// events.KindTask.Subject("sums"). No method needs a consumer, which not every user may create. If a lagging replica answers, Scan and Has
// may miss the newest events; Poll and Follow read those the next time. Reader is safe for concurrent use.
type Reader struct{ *link }

// Stored is a stored event.
type Stored struct {
	Event events.Event
	Seq   uint64
	Time  time.Time // of the server, when it stored the message
	Err   error     // why Event is nil: the message cannot be decoded
}

// Scan calls fn for every stored event of a subject from a sequence on, in order, until fn returns an error. It may also read events that are
// stored meanwhile. ErrStop ends it without an error.
func (r *Reader) Scan(ctx context.Context, stream, subject string, seq uint64, fn func(Stored) error) error {
	if err := r.scan(ctx, stream, subject, seq, fn); !errors.Is(err, ErrStop) {
		return err
	}
	return nil
}

// scan is Scan that returns ErrStop.
func (r *Reader) scan(ctx context.Context, stream, subject string, seq uint64, fn func(Stored) error) error {
	err := r.direct.Read(ctx, stream, direct.Query{Subject: subject, From: seq}, func(m direct.Message) error {
		s := Stored{Seq: m.Seq, Time: m.Stored()}
		s.Event, s.Err = r.decode(ctx, m.Subject, m.Header, m.Data)
		return fn(s)
	})
	switch {
	case errors.Is(err, ErrStop), ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("read %s: %w", subject, err)
	}
	return nil
}

// maxPollInterval is the interval of Poll while no events arrive.
const maxPollInterval = 500 * time.Millisecond

// Poll is Scan that continues with new events until ctx ends or fn returns an error. ErrStop ends it without an error.
// After an event Poll waits for the duration soon before it reads again. While no events arrive it doubles the interval, up
// to maxPollInterval.
func (r *Reader) Poll(ctx context.Context, stream, subject string, seq uint64, soon time.Duration, fn func(Stored) error) error {
	return r.poll(ctx, stream, subject, seq, soon, func() error { return nil }, fn)
}

// poll is Poll with a check before each scan.
func (r *Reader) poll(ctx context.Context, stream, subject string, seq uint64, soon time.Duration, check func() error, fn func(Stored) error) error {
	for wait := soon; ; wait = min(2*wait, maxPollInterval) {
		if err := check(); err != nil {
			return err
		}
		err := r.scan(ctx, stream, subject, seq, func(s Stored) error {
			seq, wait = s.Seq+1, soon
			return fn(s)
		})
		if errors.Is(err, ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := events.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// Extent tells which messages a stream has.
type Extent struct {
	Created     time.Time // when the stream was created
	First, Last uint64    // sequences of its messages
	Deleted     int       // number of deleted messages between them
}

// checkInterval is the interval at which Follow reads the extent of the stream.
const checkInterval = time.Second

// Follow is Poll that also calls check with the extent of the stream, and returns its error. A server that lost its store, or its end in a crash,
// gives the sequences of lost messages to new ones: then the caller must read again from the start. It keeps what check compares between calls,
// because a loss often ends a call with another error. Unlike Poll, Follow needs the right to read the state of the stream.
func (r *Reader) Follow(
	ctx context.Context, stream, subject string, seq uint64, soon time.Duration, check func(Extent) error, fn func(Stored) error,
) error {
	var checked time.Time
	return r.poll(ctx, stream, subject, seq, soon, func() error {
		if time.Since(checked) < checkInterval {
			return nil
		}
		info, err := r.streamInfo(ctx, stream)
		if err != nil {
			return err
		}
		checked = time.Now()
		return check(Extent{Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Deleted: info.State.NumDeleted})
	}, fn)
}

// IDs calls fn with the id of every stored event of a subject, in order. It decodes no event, so an event whose blob has expired counts too.
func (r *Reader) IDs(ctx context.Context, stream, subject string, fn func(events.ID)) error {
	err := r.direct.Read(ctx, stream, direct.Query{Subject: subject}, func(m direct.Message) error {
		fn(EventID(m.Header))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	return nil
}

// Has reports whether a stream has one of the events with these ids under a subject, stored at or after since. If a
// lagging replica answers, the newest events may be missing.
func (r *Reader) Has(ctx context.Context, stream, subject string, since time.Time, ids ...events.ID) (bool, error) {
	found := false
	err := r.direct.Read(ctx, stream, direct.Query{Subject: subject, Since: since}, func(m direct.Message) error {
		if found = slices.Contains(ids, EventID(m.Header)); found {
			return ErrStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrStop) {
		return false, fmt.Errorf("read %s: %w", subject, err)
	}
	return found, nil
}

// ErrNotFound is returned if an event is not stored.
var ErrNotFound = errors.New("not found: expired or never stored")

// Find returns the event at a sequence of a stream. It returns ErrNotFound if the event is not stored, or if matches returns
// false for its id.
func (r *Reader) Find(ctx context.Context, stream string, seq uint64, matches func(events.ID) bool) (events.Event, error) {
	m, err := r.storedMsg(ctx, stream, seq)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, ErrNotFound
	}
	e, err := r.decode(ctx, m.Subject, m.Header, m.Data)
	switch {
	case errors.Is(err, blob.ErrExpired):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("read %s at %d: %w", stream, seq, err)
	case !matches(e.EventID()):
		return nil, ErrNotFound
	}
	return e, nil
}

// LoadAgent replaces e.Agent by the stored description that its Ref names; without a Ref it keeps e.Agent. If that description has expired
// or is damaged, e.Agent becomes nil.
func (r *Reader) LoadAgent(ctx context.Context, e *events.Execution) error {
	agent, err := r.blobs.GetAgent(ctx, e.Agent)
	if err != nil && !blob.IsGone(err) {
		return fmt.Errorf("read the agent of run %s: %w", e.RunID, err)
	}
	e.Agent = agent
	return nil
}

// PendingTasks returns the ids of the tasks of a book without an answer: those in progress and those in the queue.
func (r *Reader) PendingTasks(ctx context.Context, b playbook.Book) (ids []events.ID, err error) {
	for _, subject := range events.TaskSubjects(b) {
		if err := r.IDs(ctx, events.StreamTasks, subject, func(id events.ID) { ids = append(ids, id) }); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Decode returns the event of a stored message. It fetches the payload if that is a blob. If no later call can decode the
// message, the error is marked by Discard.
func (r *Reader) Decode(ctx context.Context, subject string, header nats.Header, data []byte) (events.Event, error) {
	return r.decode(ctx, subject, header, data)
}
