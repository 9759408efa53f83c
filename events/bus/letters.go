package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// Letter is a dead letter as the stream holds it. Letters come from every worker of an account, and what is in them from
// whoever published it: nothing in one is to be believed before Requeue has looked at it.
type Letter struct {
	*events.DeadLetter
	Place  uint64    // its sequence among the letters; DeadLetter.Seq is that of what it is about
	Stored time.Time // by the server
}

// Handle is the public name of the letter itself.
func (l *Letter) Handle() events.Handle { return events.NewHandle(l.Place, l.EventID()) }

// LetterFilter chooses among the dead letters. Its zero value is all of them.
type LetterFilter struct {
	Role  string
	Book  playbook.Book
	Since time.Time // stored at or after it
}

// Letters calls fn for every dead letter that is stored now, oldest first, until it returns an error; ErrStop ends it
// without one. What cannot be read as a letter comes as one whose Reason says so.
func (c *Conn) Letters(ctx context.Context, f LetterFilter, fn func(*Letter) error) error {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{events.DeadSubject(f.Role, f.Book)}}
	if !f.Since.IsZero() {
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &f.Since
	}
	return c.scan(ctx, events.StreamDead, cfg, true, func(m jetstream.Msg, seq uint64) error {
		if withdrawn(m.Headers()) {
			return nil
		}
		md, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s at %d: %w", events.StreamDead, seq, err)
		}
		return fn(c.letter(ctx, m.Subject(), m.Headers(), m.Data(), seq, md.Timestamp))
	})
}

// Letter is the dead letter with a handle; ErrGone if there is none.
func (c *Conn) Letter(ctx context.Context, h events.Handle) (*Letter, error) {
	seq, _, err := h.Parse()
	if err != nil {
		return nil, err
	}
	s, err := c.js.Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, unanswered(ctx, err))
	}
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", events.StreamDead, seq, unanswered(ctx, err))
	}
	l := c.letter(ctx, m.Subject, m.Header, m.Data, seq, m.Time)
	if l.Handle() != h || withdrawn(m.Header) {
		return nil, ErrGone
	}
	return l, nil
}

func (c *Conn) letter(ctx context.Context, subject string, header nats.Header, data []byte, seq uint64, at time.Time) *Letter {
	e, err := c.decodeStored(ctx, subject, header, data)
	l, ok := e.(*events.DeadLetter)
	if err == nil && !ok {
		err = errors.New("is another kind of event")
	}
	if err != nil { // of somebody else's making, or of a newer program's
		kind := strings.Split(subject, ".")
		l = &events.DeadLetter{
			Role: kind[min(2, len(kind)-1)], Reason: fmt.Sprintf("this is no dead letter that can be read: %v", err),
			Header: header, Data: data, Time: at, Stream: events.StreamDead, Seq: seq, Subject: subject,
		}
	}
	return &Letter{DeadLetter: l, Place: seq, Stored: at}
}

// kindsOf are the kinds of event that a role is given.
var kindsOf = map[string][]events.Kind{
	events.RoleGenerator: {events.KindTask},
	events.RoleReflector: {events.KindExecution, events.KindFeedback},
	events.RoleCurator:   {events.KindReflection, events.KindEdit},
}

// Requeue publishes what a dead letter is about once more, under its own id and marked as a repeat, and then takes the
// letter away. Between the two the letter is still there: to requeue it again stores nothing twice within the
// server's memory for ids, and counts once in any case.
//
// The bytes are those that were given up on, so that what this program does not know of them is kept. They are published
// with the caller's rights, which are more than a worker's who could have written the letter; so a letter is refused
// that is not about an event of the role that gave up on it, or that nobody could handle.
func (c *Conn) Requeue(ctx context.Context, l *Letter) (Receipt, error) {
	e, err := c.Undead(ctx, l.DeadLetter)
	if err != nil {
		return Receipt{}, err
	}
	if l.Stream != source(l.Role) || !slices.Contains(kindsOf[l.Role], e.Kind()) {
		return Receipt{}, Discard(fmt.Errorf("what a %s is given does not come as %s from stream %q", l.Role, l.Subject, l.Stream))
	}
	msg := nats.NewMsg(l.Subject)
	maps.Copy(msg.Header, l.Header)
	maps.DeleteFunc(msg.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") })
	msg.Header[events.HeaderRepeat] = []string{"1"}
	if msg.Data = l.Data; msg.Header.Get(events.HeaderBlob) != "" {
		data, err := c.getBlob(ctx, msg.Header.Get(events.HeaderBlob))
		if err == nil {
			_, err = c.putBlob(ctx, data) // for as long as a new event is kept
		}
		if err != nil {
			return Receipt{}, fmt.Errorf("publish %s: %w", l.Subject, asFull(unanswered(ctx, err)))
		}
	}
	// The copy is numbered by the letter that it is of: the same one again is swallowed, the next one about it is not.
	id := string(e.EventID()) + copyMark + strconv.FormatUint(l.Seq, 10)
	pub, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	if err != nil {
		return Receipt{}, fmt.Errorf("publish %s: %w", l.Subject, asFull(unanswered(ctx, err)))
	}
	return Receipt{Seq: pub.Sequence, Handle: events.NewHandle(pub.Sequence, e.EventID()), Duplicate: pub.Duplicate}, c.Drop(ctx, l)
}

// Drop deletes a dead letter. One that is gone already is no error.
func (c *Conn) Drop(ctx context.Context, l *Letter) error {
	s, err := c.js.Stream(ctx, events.StreamDead)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamDead, unanswered(ctx, err))
	}
	err = s.DeleteMsg(ctx, l.Place)
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	// The server has no error of its own for a message that is gone.
	if _, gone := s.GetMsg(ctx, l.Place); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return fmt.Errorf("delete dead letter %s: %w", l.Handle(), unanswered(ctx, err))
}
