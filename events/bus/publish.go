package bus

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natserr"
	"debrief/events/redact"
	"debrief/events/streams"
	"debrief/playbook/text"
)

// publisher stores events. It knows whether the server can store them.
type publisher struct {
	*link
	stats      *Stats
	outage     outage
	storeState storeState
}

// Receipt describes a stored event.
type Receipt struct {
	Seq       uint64
	Handle    events.Handle
	Duplicate bool   // the stream already had the event
	Trace     string // trace id of the event; empty for a duplicate, because the first copy has its own trace
}

// PublishOptions are the attributes of a message that are not part of its event.
type PublishOptions struct {
	Repeat bool   // the event may have been published before; see events.HeaderRepeat
	Trace  string // W3C trace context of the cause; if invalid, the one in the context, or else a new one
	// ReplyTo is the subject for the reply, see events.HeaderReply; empty requests none.
	ReplyTo string
	// ReplyJSON requests the reply in JSON, whatever the encoding of the event.
	ReplyJSON bool
	// Copy, if not 0, makes the message id unique, so that the server stores another copy of an event that it
	// remembers. It is for an event whose earlier copy became a dead letter.
	Copy int
}

// copySeparator separates the id of an event from the number of a copy. No id contains it.
const copySeparator = "~"

// EventID returns the id of the event in a message with this header. All copies of an event have the same id.
func EventID(h nats.Header) events.ID {
	id, _, _ := strings.Cut(h.Get(nats.MsgIdHdr), copySeparator)
	return events.ID(id)
}

// messageID returns the event id of a message for a log or a span. It is truncated, because any client may have written it.
func messageID(h nats.Header) string { return text.Clip(string(EventID(h)), 64) }

// MaxInline is the largest payload that is stored in the message itself, in bytes. A larger one becomes a blob.
const MaxInline = 512 << 10

// Publish stores an event and returns after the server has acknowledged it. It returns a *FullError if the server has no room. It does not
// send an invalid event, for which it returns the error of Validate, or an event of an erased run, for which it returns erasure.ErrErased.
// Publish changes e: it replaces the secrets in the texts, and a large description of an agent by the name of its blob.
func (c *Conn) Publish(ctx context.Context, e events.Event, o PublishOptions) (Receipt, error) {
	ctx, span := c.startPublishSpan(ctx, e, &o) // also sets o.Trace
	defer span.End()
	r, _, err := c.publisher.publish(ctx, e, o)
	setSpanError(span, err)
	return r, err
}

// publish is Conn.Publish without a span. It also returns the message that it sent.
func (p *publisher) publish(ctx context.Context, e events.Event, o PublishOptions, opts ...jetstream.PublishOpt) (Receipt, *nats.Msg, error) {
	redact.Fields(e)
	if err := p.erased.Check(ctx, e); err != nil {
		p.recordAnswer(err) // the check may ask the server, and get no answer
		return Receipt{}, nil, fmt.Errorf("publish a %s: %w", e.Kind(), err)
	}
	if err := p.storeAgent(ctx, e); err != nil {
		return Receipt{}, nil, err
	}
	msg, err := newMessage(e, o)
	if err != nil {
		return Receipt{}, nil, Discard(err)
	}
	if err := p.storePayload(ctx, msg); err != nil {
		return Receipt{}, nil, fmt.Errorf("publish %s: %w", msg.Subject, err)
	}
	id := string(e.EventID())
	if o.Copy != 0 {
		id += copySeparator + strconv.Itoa(o.Copy)
	}
	pub, err := p.publishMsg(ctx, streams.OfKind(e.Kind()), msg, append(opts, jetstream.WithMsgID(id))...)
	if err != nil {
		return Receipt{}, nil, fmt.Errorf("publish %s: %w", msg.Subject, err)
	}
	r := Receipt{Seq: pub.Sequence, Handle: events.NewHandle(pub.Sequence, e.EventID()), Duplicate: pub.Duplicate}
	if !r.Duplicate {
		r.Trace = events.TraceID(o.Trace)
		p.stats.addStored(e)
	}
	return r, msg, nil
}

// storeAgent stores a large description of the agent of an execution, and replaces it by the name of its blob.
func (p *publisher) storeAgent(ctx context.Context, e events.Event) error {
	x, ok := e.(*events.Execution)
	if !ok || x.Agent == nil {
		return nil
	}
	agent, err := p.blobs.PutAgent(ctx, x.Agent)
	if err != nil {
		return fmt.Errorf("store the agent of run %s: %w", x.RunID, asFull(natserr.AsTimeout(ctx, err)))
	}
	x.Agent = agent
	return nil
}

// newMessage returns the message of an event, with the attributes as headers.
func newMessage(e events.Event, o PublishOptions) (*nats.Msg, error) {
	subject, header, data, err := events.Encode(e)
	if err != nil {
		return nil, err
	}
	msg := &nats.Msg{Subject: subject, Header: header, Data: data}
	if o.Repeat {
		msg.Header[events.HeaderRepeat] = []string{"1"}
	}
	if events.TraceID(o.Trace) != "" {
		msg.Header[events.HeaderTrace] = []string{o.Trace}
	}
	if o.ReplyTo == "" {
		return msg, nil
	}
	msg.Header[events.HeaderReply] = []string{o.ReplyTo}
	if _, err := events.ReplySubject(msg.Header); err != nil {
		return nil, fmt.Errorf("publish %s: %w", subject, err)
	}
	if o.ReplyJSON {
		msg.Header[events.HeaderReplyType] = []string{events.ContentTypeJSON}
	}
	return msg, nil
}

// storePayload stores a payload above MaxInline as a blob, and replaces it in the message by the name of the blob.
func (p *publisher) storePayload(ctx context.Context, msg *nats.Msg) error {
	if len(msg.Data) <= MaxInline {
		return nil
	}
	name, err := p.blobs.Put(ctx, msg.Subject, msg.Data)
	if err != nil {
		return asFull(natserr.AsTimeout(ctx, err))
	}
	msg.Header[events.HeaderBlob] = []string{name}
	msg.Data = nil
	return nil
}

// asFull returns a *FullError if the error means that the server has no room, and other errors unchanged.
func asFull(err error) error {
	if isFull(err) {
		return &FullError{err}
	}
	return err
}
