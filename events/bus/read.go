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
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/playbook"
)

// ErrStop is returned by the function given to Read to end it.
var ErrStop = errors.New("stop reading")

// Stored is an event as a stream holds it.
type Stored struct {
	Event events.Event
	Seq   uint64
	Err   error // why Event is nil: what is stored there cannot be decoded
}

// Read calls fn for every event that a stream holds under a subject, in order, and then for each that arrives, until
// the context ends or fn returns an error; ErrStop ends it without one.
func (c *Conn) Read(ctx context.Context, stream, subject string, fn func(Stored) error) error {
	return c.read(ctx, stream, subject, 0, false, fn)
}

// ReadFrom is Read that begins at a sequence.
func (c *Conn) ReadFrom(ctx context.Context, stream, subject string, seq uint64, fn func(Stored) error) error {
	return c.read(ctx, stream, subject, seq, false, fn)
}

// ReadStored is Read that ends with the last event that is stored now.
func (c *Conn) ReadStored(ctx context.Context, stream, subject string, fn func(Stored) error) error {
	return c.read(ctx, stream, subject, 0, true, fn)
}

// Scan calls fn for every event that a stream holds under a subject from a sequence on, in order. Unlike the reads above it
// makes no consumer on the server, which is not for every user to make. A replica that is behind may not have the last.
func (c *Conn) Scan(ctx context.Context, stream, subject string, seq uint64, fn func(Stored) error) error {
	err := denied.Do(ctx, c.watch, stream, func(ctx context.Context) error {
		return direct.Read(ctx, c.nc, stream, direct.Query{Subject: subject, From: seq}, func(m direct.Message) error {
			if withdrawn(m.Header) {
				return nil
			}
			s := Stored{Seq: m.Seq}
			s.Event, s.Err = c.decodeStored(ctx, m.Subject, m.Header, m.Data)
			return fn(s)
		})
	})
	switch {
	case errors.Is(err, ErrStop), ctx.Err() != nil:
		return err
	case err != nil:
		return fmt.Errorf("read %s: %w", subject, err)
	}
	return nil
}

// pollLast is how often Poll asks for what is new where nothing is.
const pollLast = 500 * time.Millisecond

// Poll is Scan that goes on with what arrives, as it finds it by asking again, until the context ends or fn returns an
// error; ErrStop ends it without one. It asks again so soon after there was something, and then less and less.
func (c *Conn) Poll(ctx context.Context, stream, subject string, seq uint64, soon time.Duration, fn func(Stored) error) error {
	for wait := soon; ; wait = min(2*wait, pollLast) {
		err := c.Scan(ctx, stream, subject, seq, func(s Stored) error {
			seq, wait = s.Seq+1, soon
			return fn(s)
		})
		if errors.Is(err, ErrStop) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// IDs calls fn with the id of every event that a stream holds under a subject now, in order. Only headers are read, so
// large events cost no more than small ones.
func (c *Conn) IDs(ctx context.Context, stream, subject string, fn func(events.ID)) error {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}, HeadersOnly: true}
	return c.scan(ctx, stream, cfg, true, func(m jetstream.Msg, _ uint64) error {
		fn(events.ID(m.Headers().Get(nats.MsgIdHdr)))
		return nil
	})
}

// Has reports whether a stream holds one of some events under a subject, stored at a time or later. A replica that is
// behind may not have the last.
func (c *Conn) Has(ctx context.Context, stream, subject string, since time.Time, ids ...events.ID) (bool, error) {
	found := false
	err := denied.Do(ctx, c.watch, stream, func(ctx context.Context) error {
		return direct.Read(ctx, c.nc, stream, direct.Query{Subject: subject, Since: since}, func(m direct.Message) error {
			if found = slices.Contains(ids, EventID(m.Header)); found {
				return ErrStop
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, ErrStop) {
		return false, fmt.Errorf("read %s: %w", subject, unanswered(ctx, err))
	}
	return found, nil
}

func (c *Conn) read(ctx context.Context, stream, subject string, seq uint64, stored bool, fn func(Stored) error) error {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}}
	if seq > 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, seq
	}
	return c.scan(ctx, stream, cfg, stored, func(m jetstream.Msg, seq uint64) error {
		if withdrawn(m.Headers()) {
			return nil
		}
		s := Stored{Seq: seq}
		s.Event, s.Err = c.decode(ctx, m)
		return fn(s)
	})
}

// scan calls fn for every message of a stream, and with stored only for those that it holds now.
func (c *Conn) scan(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig, stored bool, fn func(jetstream.Msg, uint64) error) error {
	subject := cfg.FilterSubjects[0]
	cons, err := c.js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	info, err := cons.Info(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	// A consumer that is stopped stays on the server for minutes, and there may be only so many.
	defer func() {
		away, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		name := info.Name
		if now := cons.CachedInfo(); now != nil { // it may have been made anew
			name = now.Name
		}
		_ = c.js.DeleteConsumer(away, stream, name) // else it goes by itself
	}()
	left := info.NumPending // more may arrive for as long as we read
	if stored && left == 0 {
		return nil
	}
	it, err := cons.Messages()
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)()
	for {
		m, err := it.Next()
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
		if err := fn(m, md.Sequence.Stream); errors.Is(err, ErrStop) {
			return nil
		} else if err != nil {
			return err
		}
		if left--; stored && (left == 0 || md.NumPending == 0) { // fewer when some were deleted meanwhile
			return nil
		}
	}
}

// ErrGone is returned when an event is not stored any more, or never was.
var ErrGone = errors.New("is not stored: it has expired, or never was here")

// Find is the event that a stream holds at a sequence, if it is the one that is meant.
func (c *Conn) Find(ctx context.Context, stream string, seq uint64, is func(events.ID) bool) (events.Event, error) {
	m, err := c.stored(ctx, stream, seq)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, ErrGone
	}
	e, err := c.decodeStored(ctx, m.Subject, m.Header, m.Data)
	switch {
	case errors.Is(err, errExpired):
		return nil, ErrGone
	case err != nil:
		return nil, fmt.Errorf("read %s at %d: %w", stream, seq, err)
	case !is(e.EventID()):
		return nil, ErrGone
	}
	return e, nil
}

// StreamState is how much a stream holds.
type StreamState struct {
	Name     string `json:"name"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Last     uint64 `json:"last_seq"`

	Replicas  int `json:"replicas"`
	Consumers int `json:"consumers"`
}

// Streams says how much every stream of ours holds.
func (c *Conn) Streams(ctx context.Context) ([]StreamState, error) {
	var all []StreamState
	for _, want := range streams(1) {
		s, err := c.js.Stream(ctx, want.Name)
		if err != nil {
			return nil, fmt.Errorf("open stream %s: %w", want.Name, err)
		}
		st := s.CachedInfo().State
		all = append(all, StreamState{want.Name, st.Msgs, st.Bytes, st.LastSeq, s.CachedInfo().Config.Replicas, st.Consumers})
	}
	return all, nil
}

// Waiting are the ids of a book's tasks that no generator has answered yet: those in work, and those in the queue.
func (c *Conn) Waiting(ctx context.Context, b playbook.Book) ([]events.ID, error) {
	s, err := c.js.Stream(ctx, events.StreamTasks)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamTasks, unanswered(ctx, err))
	}
	var ids []events.ID
	for seq := uint64(1); ; {
		m, err := c.get(ctx, s, events.StreamTasks, seq, jetstream.WithGetMsgSubject(events.KindTask.Subject(b)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return ids, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s from %d: %w", events.StreamTasks, seq, unanswered(ctx, err))
		}
		ids, seq = append(ids, EventID(m.Header)), m.Sequence+1
	}
}
