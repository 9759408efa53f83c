package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/denied"
	"debrief/playbook"
)

// nobook is the book of dead letters whose subject names none.
const nobook = playbook.Book("_unknown")

// maxLetterData bounds the original bytes in a letter, so that it fits a message. What is larger was never published
// by us: our payloads of that size are blobs.
const maxLetterData = 768 << 10

// Bury stores a dead letter. Two workers that give up on the same message store one.
func (c *Conn) Bury(ctx context.Context, l *events.DeadLetter) error {
	l.Book = nobook
	if _, book, err := events.ParseSubject(l.Subject); err == nil {
		l.Book = book
	}
	redactLetter(l)
	l.Reason = oneLine(l.Reason)
	if len(l.Data) > maxLetterData {
		l.Data = l.Data[:maxLetterData]
		l.Reason += fmt.Sprintf(" (original cut to %d bytes)", maxLetterData)
	}
	if _, _, err := c.publish(ctx, l, Marks{Trace: nats.Header(l.Header).Get(events.HeaderTrace)}); err != nil {
		return fmt.Errorf("store dead letter: %w", err)
	}
	return nil
}

// EventID is the id of the event that a message with this header holds, of any of its copies.
func EventID(h nats.Header) events.ID {
	id, _, _ := strings.Cut(h.Get(nats.MsgIdHdr), copyMark)
	return events.ID(id)
}

// Undead is the event that a dead letter is about, its payload fetched.
func (c *Conn) Undead(ctx context.Context, l *events.DeadLetter) (events.Event, error) {
	return c.decodeStored(ctx, l.Subject, l.Header, l.Data)
}

// refuse tells whoever asked for an event's answer why there is none. The event may be nil.
func (c *Conn) refuse(e events.Event, why string) {
	if to := replyTo(e); to != "" {
		c.reply(&nats.Msg{Subject: to, Header: nats.Header{events.HeaderError: {oneLine(why)}}})
	}
}

// reply answers as well as it can: who asked may be gone, and what came of the work is stored either way.
func (c *Conn) reply(m *nats.Msg) {
	m.Header.Del(nats.MsgIdHdr)
	if err := c.nc.PublishMsg(m); err != nil {
		c.log.Warn().Err(err).Msg("reply")
	}
}

// oneLine is text as a header or a list shows it.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	return s
}

// RunMover turns the server's notices of messages that ran out of deliveries into dead letters, until the context
// ends. Every worker runs one; they share a durable.
func (c *Conn) RunMover(ctx context.Context) error {
	return c.Run(ctx, Worker{
		Role: events.RoleMover,
		decode: func(_ context.Context, m jetstream.Msg) (events.Event, error) {
			a := &advisory{DeadLetter: new(events.DeadLetter)}
			if err := json.Unmarshal(m.Data(), a); err != nil {
				return nil, Discard(fmt.Errorf("advisory: %w", err))
			}
			return a, nil
		},
		Handle: func(ctx context.Context, batch []*Delivery) []Result {
			return []Result{c.move(ctx, batch[0].Event.(*advisory))}
		},
	})
}

// advisory is the server's notice that it gave up on a message; embedding makes it pass for an event.
type advisory struct {
	*events.DeadLetter `json:"-"`

	Type       string `json:"type"`
	Stream     string `json:"stream"`
	Consumer   string `json:"consumer"`
	StreamSeq  uint64 `json:"stream_seq"`
	Deliveries int    `json:"deliveries"`
	Reason     string `json:"reason"`
}

// move makes the dead letter of one notice.
func (c *Conn) move(ctx context.Context, a *advisory) Result {
	if source(a.Consumer) != a.Stream || a.Consumer == events.RoleMover {
		return Result{} // a consumer of somebody else's on our stream
	}
	m, err := c.stored(ctx, a.Stream, a.StreamSeq)
	if m == nil || err != nil {
		return Result{Err: err} // without an error it was settled after all, or has expired
	}
	if err := events.CheckSchema(m.Header); errors.Is(err, events.ErrNewerSchema) {
		return Result{Err: err} // for a newer mover to judge
	}
	reason := a.Reason
	if reason == "" {
		reason = fmt.Sprintf("no worker finished it in %d deliveries", a.Deliveries)
	}
	letter := &events.DeadLetter{
		Role: a.Consumer, Reason: reason, Deliveries: a.Deliveries, Stream: a.Stream, Seq: a.StreamSeq,
		Subject: m.Subject, Header: m.Header, Data: m.Data, Time: time.Now().UTC(), Abandoned: a.Reason == "",
	}
	if err := c.Bury(ctx, letter); err != nil {
		return Result{Err: err}
	}
	if e, err := events.Decode(m.Subject, m.Header, m.Data); err == nil {
		c.refuse(e, reason)
	}
	c.log.Error().Str(events.LogRole, a.Consumer).Str(events.LogTrace, events.TraceID(m.Header.Get(events.HeaderTrace))).
		Str(events.LogEvent, messageID(m.Header)).Str(events.LogBook, string(letter.Book)).Uint64(events.LogSeq, a.StreamSeq).
		Int(events.LogDelivery, a.Deliveries).Str("reason", reason).Msg("dead letter")
	if a.Stream == events.StreamTasks { // a work queue keeps what nobody acks
		if err := c.delete(ctx, a.Stream, a.StreamSeq); err != nil {
			return Result{Err: fmt.Errorf("delete task %d: %w", a.StreamSeq, unanswered(ctx, err))}
		}
	}
	return Result{}
}

func (c *Conn) delete(ctx context.Context, stream string, seq uint64) error {
	s, err := c.js.Stream(ctx, stream)
	if err == nil {
		err = denied.Do(ctx, c.watch, stream, func(ctx context.Context) error { return s.DeleteMsg(ctx, seq) })
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}
