package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/direct"
	"debrief/playbook"
)

// ErrStop ends a read without an error. The callback returns it.
var ErrStop = errors.New("stop reading")

// Reader reads stored events. Most methods select them by a stream and a subject, for example events.StreamTasks and
// events.KindTask.Subject("sums").
//
// ReadFrom, ReadStored and IDs create a consumer for the time of the call, which not every user may do. They return every
// stored event, and new ones at once. The other methods need no consumer. Scan and Has may miss the newest events if a lagging
// replica answers; Poll and Follow read those the next time. Reader is safe for concurrent use.
type Reader struct{ *link }

// extent is where a read ends.
type extent bool

const (
	storedOnly extent = true  // after the last stored message
	andNew     extent = false // never: the read continues with new messages
)

// Stored is a stored event.
type Stored struct {
	Event events.Event
	Seq   uint64
	Time  time.Time // of the server, when it stored the message
	Err   error     // why Event is nil: the message cannot be decoded
}

// ReadFrom calls fn for every stored event of a subject in order, and then for each new one, until ctx ends or fn returns
// an error. It begins at a sequence; 0 is the first one. ErrStop ends it without an error.
func (r *Reader) ReadFrom(ctx context.Context, stream, subject string, seq uint64, fn func(Stored) error) error {
	return r.read(ctx, stream, subject, seq, andNew, fn)
}

// ReadStored calls fn for every stored event of a subject in order, until fn returns an error. It ends after the last event that
// was stored when it began. ErrStop ends it without an error.
func (r *Reader) ReadStored(ctx context.Context, stream, subject string, fn func(Stored) error) error {
	return r.read(ctx, stream, subject, 0, storedOnly, fn)
}

// Scan calls fn for every stored event of a subject from a sequence on, in order. It returns the error of fn, also ErrStop.
// Unlike ReadFrom it needs no consumer, which not every user may create. If a lagging replica answers, the newest events may
// be missing.
func (r *Reader) Scan(ctx context.Context, stream, subject string, seq uint64, fn func(Stored) error) error {
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
	return r.poll(ctx, stream, subject, seq, soon, func(uint64) error { return nil }, fn)
}

// poll is Poll with a check before each scan. The check gets the sequence at which the scan begins.
func (r *Reader) poll(
	ctx context.Context, stream, subject string, seq uint64, soon time.Duration, check func(seq uint64) error, fn func(Stored) error,
) error {
	for wait := soon; ; wait = min(2*wait, maxPollInterval) {
		if err := check(seq); err != nil {
			return err
		}
		err := r.Scan(ctx, stream, subject, seq, func(s Stored) error {
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

// ErrLost is returned by Follow if the stream has lost messages, so that new ones get the sequences of messages that were read.
var ErrLost = errors.New("the stream has lost messages: its sequences began again")

// lossInterval is the interval at which Follow reads the state of the stream.
const lossInterval = time.Second

// Follow is Poll that notices a loss of messages: a server that lost its store, or its end in a crash, gives their sequences to new messages.
// Then it returns ErrLost, and the caller must read from the start. created is the time at which the stream was created, zero before the first
// call. Follow updates it. A caller keeps it between calls, because a loss often ends a call with another error. Unlike Poll, Follow needs the
// right to read the state of the stream.
func (r *Reader) Follow(ctx context.Context, stream, subject string, seq uint64, created *time.Time, soon time.Duration, fn func(Stored) error) error {
	var checked time.Time
	return r.poll(ctx, stream, subject, seq, soon, func(seq uint64) error {
		if time.Since(checked) < lossInterval {
			return nil
		}
		s, err := r.js.Stream(ctx, stream)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", stream, err)
		}
		info := s.CachedInfo()
		isNew := !created.IsZero() && !info.Created.Equal(*created)
		*created, checked = info.Created, time.Now()
		if isNew || info.State.LastSeq+1 < seq {
			return ErrLost
		}
		return nil
	}, fn)
}

// IDs calls fn with the id of every stored event of a subject, in order. It reads only headers, so the size of the
// events does not matter.
func (r *Reader) IDs(ctx context.Context, stream, subject string, fn func(events.ID)) error {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, HeadersOnly: true}
	return r.consume(ctx, stream, cfg, storedOnly, func(m jetstream.Msg, _ *jetstream.MsgMetadata) error {
		fn(EventID(m.Headers()))
		return nil
	})
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

// read calls fn for every event of a subject from a sequence on.
func (r *Reader) read(ctx context.Context, stream, subject string, seq uint64, until extent, fn func(Stored) error) error {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}}
	if seq > 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, seq
	}
	return r.consume(ctx, stream, cfg, until, func(m jetstream.Msg, md *jetstream.MsgMetadata) error {
		s := Stored{Seq: md.Sequence.Stream, Time: md.Timestamp}
		s.Event, s.Err = r.decode(ctx, m.Subject(), m.Headers(), m.Data())
		return fn(s)
	})
}

// consume creates a consumer, calls fn for every message that its configuration selects, and deletes the consumer.
func (r *Reader) consume(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, until extent, fn func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	subject := cfg.FilterSubjects[0]
	cons, err := r.js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	// Without this, the consumer would stay on the server for minutes, and the number of consumers is limited.
	defer func() {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		name := info.Name
		if now := cons.CachedInfo(); now != nil { // the client may have created a new one
			name = now.Name
		}
		_ = r.js.DeleteConsumer(cleanup, stream, name) // after an error the server removes it later
	}()
	left := info.NumPending // more messages may arrive during the scan
	if until == storedOnly && left == 0 {
		return nil
	}
	it, err := cons.Messages()
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	defer it.Stop()
	for {
		m, err := it.Next(jetstream.NextContext(ctx)) // Stop has no effect while the client replaces the consumer after an error
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", subject, err)
		}
		md, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", subject, err)
		}
		if err := fn(m, md); errors.Is(err, ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
		left--
		if until == storedOnly && (left == 0 || md.NumPending == 0) { // NumPending is 0 earlier if messages were deleted meanwhile
			return nil
		}
	}
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
		err := r.direct.Read(ctx, events.StreamTasks, direct.Query{Subject: subject}, func(m direct.Message) error {
			ids = append(ids, EventID(m.Header))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", subject, err)
		}
	}
	return ids, nil
}

// Decode returns the event of a stored message. It fetches the payload if that is a blob. If no later call can decode the
// message, the error is marked by Discard.
func (r *Reader) Decode(ctx context.Context, subject string, header nats.Header, data []byte) (events.Event, error) {
	return r.decode(ctx, subject, header, data)
}
