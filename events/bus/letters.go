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
	"debrief/events/direct"
	"debrief/events/natserr"
	"debrief/events/streams"
	"debrief/playbook"
)

// Letter is a stored dead letter. Any worker of the account may have written it, and its content comes from the
// publisher of the original message. Do not trust it before Requeue has checked it.
type Letter struct {
	*events.DeadLetter
	LetterSeq uint64    // sequence of the letter; DeadLetter.Seq is the sequence of the original
	Stored    time.Time // when the server stored it
}

// Handle returns the public name of the letter.
func (l *Letter) Handle() events.Handle { return events.NewHandle(l.LetterSeq, l.EventID()) }

// LetterFilter selects dead letters. Its zero value selects all.
type LetterFilter struct {
	Role  string
	Book  playbook.Book
	Since time.Time // stored at this time or later
}

// List calls fn for every stored dead letter, oldest first, until fn returns an error. ErrStop ends it without an
// error. For an unreadable message fn gets a letter whose reason says so. List needs no consumer, which not every user may
// create. If a lagging replica answers, the newest letters may be missing.
func (d *DeadLetters) List(ctx context.Context, f LetterFilter, fn func(*Letter) error) error {
	q := direct.Query{Subject: events.DeadSubject(f.Role, f.Book), Since: f.Since}
	err := d.direct.Read(ctx, events.StreamDead, q, func(m direct.Message) error {
		return fn(d.decodeLetter(ctx, &m))
	})
	if err != nil && !errors.Is(err, ErrStop) {
		return fmt.Errorf("read %s: %w", q.Subject, err)
	}
	return nil
}

// Get returns the dead letter with a handle. It returns ErrNotFound if it does not exist.
func (d *DeadLetters) Get(ctx context.Context, h events.Handle) (*Letter, error) {
	seq, _, err := h.Parse()
	if err != nil {
		return nil, err
	}
	m, err := d.storedMsg(ctx, events.StreamDead, seq)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, ErrNotFound
	}
	l := d.decodeLetter(ctx, m)
	if l.Handle() != h {
		return nil, ErrNotFound
	}
	return l, nil
}

// Event returns the event of the message that became a dead letter. If no later call can decode the message, the error is
// marked by Discard.
func (d *DeadLetters) Event(ctx context.Context, l *Letter) (events.Event, error) {
	return d.decode(ctx, l.DeadLetter.Subject, l.DeadLetter.Header, l.DeadLetter.Data)
}

// decodeLetter returns the dead letter in a message of the stream. For an unreadable message it makes one whose reason says so.
func (d *DeadLetters) decodeLetter(ctx context.Context, m *direct.Message) *Letter {
	e, err := d.decode(ctx, m.Subject, m.Header, m.Data)
	l, ok := e.(*events.DeadLetter)
	if err == nil && !ok {
		err = errors.New("not a dead letter")
	}
	if err != nil { // of another program, or of a newer version
		tokens := strings.Split(m.Subject, ".")
		l = &events.DeadLetter{
			Role: tokens[min(2, len(tokens)-1)], Reason: fmt.Sprintf("unreadable dead letter: %v", err),
			Header: m.Header, Data: m.Data, Time: m.Stored(), Stream: events.StreamDead, Seq: m.Seq, Subject: m.Subject,
		}
	}
	return &Letter{DeadLetter: l, LetterSeq: m.Seq, Stored: m.Stored()}
}

// Requeue publishes the original event of a dead letter again, with the same id and marked as a repeat. Then it deletes
// the letter. After a failure it can be called again. Within its duplicate window the server does not store a
// second copy, and a later copy has no second effect.
//
// The message has its original bytes, so that unknown fields are kept. Requeue publishes with the rights of the caller,
// which exceed the rights of the worker that wrote the letter. So it rejects a letter that does not decode, or whose event
// is not of a kind and stream that its role handles.
func (d *DeadLetters) Requeue(ctx context.Context, l *Letter) (Receipt, error) {
	e, err := d.Event(ctx, l)
	if err != nil {
		return Receipt{}, err
	}
	if !slices.Contains(streams.Roles, l.Role) || l.Stream != streams.Input(l.Role) || streams.OfKind(e.Kind()) != l.Stream {
		return Receipt{}, Discard(fmt.Errorf("requeue %s from stream %q: not a message for the %s", l.Subject, l.Stream, l.Role))
	}
	msg := nats.NewMsg(l.Subject)
	maps.Copy(msg.Header, l.Header)
	maps.DeleteFunc(msg.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") }) // of the first publish
	msg.Header[events.HeaderRepeat] = []string{"1"}
	msg.Data = l.Data
	if name := msg.Header.Get(events.HeaderBlob); name != "" {
		data, err := d.getBlob(ctx, name)
		if err == nil {
			_, err = d.blobs.Put(ctx, l.Subject, data) // renews its age
		}
		if err != nil {
			return Receipt{}, fmt.Errorf("publish %s: %w", l.Subject, asFull(natserr.AsTimeout(ctx, err)))
		}
	}
	// The id contains the sequence of the original. So the server drops a second copy for the same letter, but
	// stores the copy for a later letter of the same event.
	id := string(e.EventID()) + copySeparator + strconv.FormatUint(l.Seq, 10)
	pub, err := d.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	if err != nil {
		return Receipt{}, fmt.Errorf("publish %s: %w", l.Subject, asFull(natserr.AsTimeout(ctx, err)))
	}
	return Receipt{Seq: pub.Sequence, Handle: events.NewHandle(pub.Sequence, e.EventID()), Duplicate: pub.Duplicate}, d.Drop(ctx, l)
}

// Drop deletes a dead letter. It returns nil if the letter no longer exists.
func (d *DeadLetters) Drop(ctx context.Context, l *Letter) error {
	s, err := d.js.Stream(ctx, events.StreamDead)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamDead, natserr.AsTimeout(ctx, err))
	}
	_, err = natserr.Call(ctx, d.watch, events.StreamDead, func(ctx context.Context) (bool, error) { return direct.Overwrite(ctx, s, l.LetterSeq) })
	if err != nil {
		return fmt.Errorf("delete dead letter %s: %w", l.Handle(), natserr.AsTimeout(ctx, err))
	}
	return nil
}
