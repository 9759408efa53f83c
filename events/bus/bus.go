// Package bus carries events over JetStream. It owns the streams, the worker loop, the failure policy and the dead
// letters. A handler takes events and returns events or an error. It never sees a message, an ack or a retry.
//
// # Attempts
//
// The server redelivers a message without limit. The worker counts the attempts and stores a dead letter instead of
// starting attempt six. An attempt starts when the handler starts. A delivery does not count as an attempt while its
// message is held, or if it is released before its handler started, because the worker stops or pauses. The worker
// records this in the bucket "attempts" when a hold starts and before it releases a message. So neither a crash of a
// worker nor a crash of the server loses a message or the count. A message has either an effect or a dead letter: see
// deadletter.go.
//
// # Useless output
//
// The output of a model can be useless for one message, or for all messages because the prompt is broken. One message
// must not stop a role, and a broken prompt must not cost messages. So a message with useless output is retried with
// backoff. The fault is assigned to the message only if the model gave useful output for another message after the
// first failure of this one. Before that, and while the role is paused, the message never becomes a dead letter.
//
// A role pauses after useless output for 20 new messages in a row, or for one message in the second half of its
// attempts, with no useful output in between. A paused role holds those messages and tries one message every 30 s. It
// takes a new one from the stream while it holds fewer than 128, and otherwise one that it holds. The first useful
// output ends the pause. A role that takes batches releases messages instead of holding them, because a held message
// blocks its book. Such a release does not count as an attempt.
package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/denied"
	"debrief/events/natserr"
	"debrief/events/redact"
	"debrief/events/streams"
)

// Conn is a connection to the streams of one account.
type Conn struct {
	nc         *nats.Conn
	js         jetstream.JetStream
	watch      *denied.Watch
	blobs      *blob.Store
	policy     Policy
	log        zerolog.Logger
	tracer     trace.Tracer // nil disables tracing
	health     health
	stats      stats
	outage     outage
	storeState storeState
}

// Options configures Open and Attach.
type Options struct {
	Policy   Policy
	Replicas int // number of replicas of the streams that Open creates; default 1
	Log      zerolog.Logger
	// Role limits Open to the streams that this role uses. Empty means all streams.
	Role   string
	Tracer trace.Tracer // for the spans of publishes and deliveries; nil disables tracing
}

// Open returns a connection to the streams and buckets. It creates those that are missing, if the user has the rights.
// The caller closes nc. If the server denies a request, Open and every method of Conn return a *DeniedError. Open
// returns a *streams.ConfigError if the configuration of an existing stream does not fit.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	c := newConn(nc, js, o)
	c.tracer = o.Tracer
	if err := c.ensure(ctx, o.Role, max(o.Replicas, 1)); err != nil {
		if noJetStream(err) {
			return nil, fmt.Errorf("the server at %s has no JetStream in this user's account, or the account does not import it: start the server with JetStream, or "+
				"connect with a key of 'debrief credentials' and have the server read the accounts.conf that it writes: %w", redact.Address(nc.ConnectedUrl()), err)
		}
		return nil, err
	}
	return c, nil
}

// Attach returns a connection without checking or creating streams. It is for programs that only read.
func Attach(nc *nats.Conn, o Options) (*Conn, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return newConn(nc, js, o), nil
}

func newConn(nc *nats.Conn, js jetstream.JetStream, o Options) *Conn {
	watch := denied.New(nc)
	js = denied.JetStream(js, watch)
	return &Conn{nc: nc, js: js, watch: watch, blobs: blob.New(js), policy: o.Policy.WithDefaults(), log: o.Log}
}

// noJetStream reports whether the account has no JetStream and imports none.
func noJetStream(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// JetStream returns the JetStream of the connection, for the package that stores playbooks.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// NATS returns the NATS connection, for the request-reply service.
func (c *Conn) NATS() *nats.Conn { return c.nc }

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
	// Copy, if not 0, makes the message id unique, so that the server stores another copy of an event that it
	// remembers. It is for an event whose earlier copy became a dead letter.
	Copy int
}

// copySeparator separates the id of an event from the number of a copy. No id contains it.
const copySeparator = "~"

// MaxInline is the largest payload that is stored in the message itself, in bytes. A larger one becomes a blob.
const MaxInline = 512 << 10

// Publish stores an event and returns after the server has acknowledged it. It returns a *FullError if the server has
// no room. It first replaces the secrets in the texts of e, so that the caller's copy contains none either.
func (c *Conn) Publish(ctx context.Context, e events.Event, m PublishOptions) (Receipt, error) {
	ctx, span := c.startPublishSpan(ctx, e, &m)
	defer span.End()
	r, _, err := c.publish(ctx, e, m)
	setSpanError(span, err)
	return r, err
}

func (c *Conn) publish(ctx context.Context, e events.Event, m PublishOptions, opts ...jetstream.PublishOpt) (Receipt, *nats.Msg, error) {
	redact.Fields(e)
	subject, header, data, err := events.Encode(e)
	if err != nil {
		return Receipt{}, nil, Discard(err)
	}
	msg := &nats.Msg{Subject: subject, Header: header, Data: data}
	if m.Repeat {
		msg.Header[events.HeaderRepeat] = []string{"1"}
	}
	if events.TraceID(m.Trace) != "" {
		msg.Header[events.HeaderTrace] = []string{m.Trace}
	}
	if len(data) > MaxInline {
		name, err := c.blobs.Put(ctx, data)
		if err != nil {
			return Receipt{}, nil, fmt.Errorf("publish %s: %w", subject, asFull(natserr.AsTimeout(ctx, err)))
		}
		msg.Header[events.HeaderBlob] = []string{name}
		msg.Data = nil
	}
	id := string(e.EventID())
	if m.Copy != 0 {
		id += copySeparator + strconv.Itoa(m.Copy)
	}
	pub, err := c.publishMsg(ctx, streams.OfKind(e.Kind()), msg, append(opts, jetstream.WithMsgID(id))...)
	if err != nil {
		return Receipt{}, nil, fmt.Errorf("publish %s: %w", subject, explainNoStream(err))
	}
	r := Receipt{Seq: pub.Sequence, Handle: events.NewHandle(pub.Sequence, e.EventID()), Duplicate: pub.Duplicate}
	if !r.Duplicate {
		r.Trace = events.TraceID(m.Trace)
	}
	return r, msg, nil
}

// originalMsg returns the stored message of a duplicate event. It returns nil if the message no longer exists.
func (c *Conn) originalMsg(ctx context.Context, k events.Kind, seq uint64) (*nats.Msg, error) {
	m, err := c.storedMsg(ctx, streams.OfKind(k), seq)
	if m == nil || err != nil {
		return nil, err
	}
	header := nats.Header{}
	maps.Copy(header, m.Header)
	return &nats.Msg{Header: header, Data: m.Data}, nil
}

// storedMsg returns the message at a sequence of a stream. It returns nil if the message does not exist.
func (c *Conn) storedMsg(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", stream, natserr.AsTimeout(ctx, err))
	}
	m, err := c.getMsg(ctx, s, stream, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", stream, seq, natserr.AsTimeout(ctx, err))
	}
	return m, nil
}

// getMsg returns a message of an open stream.
func (c *Conn) getMsg(ctx context.Context, s jetstream.Stream, stream string, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return denied.Call(ctx, c.watch, stream, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetMsg(ctx, seq, opts...)
	})
}

// explainNoStream adds the possible causes to the error of a publish that no stream received.
func explainNoStream(err error) error {
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("%w: the stream has no leader or does not exist, or the account of this user does not import the subject: run 'debrief doctor' with the user's key", err)
	}
	return err
}

func asFull(err error) error {
	if isFull(err) {
		return &FullError{err}
	}
	return err
}

// getBlob returns a blob. No further delivery can read an expired or damaged one.
func (c *Conn) getBlob(ctx context.Context, name string) ([]byte, error) {
	data, err := c.blobs.Get(ctx, name)
	if errors.Is(err, blob.ErrExpired) || errors.Is(err, blob.ErrInvalid) {
		err = Discard(err)
	}
	return data, err
}

// decode returns the event of a message. It fetches the payload if that is a blob.
func (c *Conn) decode(ctx context.Context, m jetstream.Msg) (events.Event, error) {
	return c.Decode(ctx, m.Subject(), m.Headers(), m.Data())
}

// Decode returns the event of a stored message. It fetches the payload if that is a blob. If no later call can decode the
// message, the error is one of Discard.
func (c *Conn) Decode(ctx context.Context, subject string, header nats.Header, data []byte) (events.Event, error) {
	if name := header.Get(events.HeaderBlob); name != "" {
		if err := events.CheckSchema(header); err != nil {
			return nil, classifyDecode(err)
		}
		var err error
		if data, err = c.getBlob(ctx, name); err != nil {
			return nil, err
		}
	}
	e, err := events.Decode(subject, header, data)
	if err != nil {
		return nil, classifyDecode(err)
	}
	return e, nil
}

func classifyDecode(err error) error {
	if errors.Is(err, events.ErrNewerSchema) {
		return err
	}
	return Discard(err)
}

// Reply is the message on a reply subject: the payload of an answer, or the reason of a failure.
type Reply struct {
	Handle events.Handle
	Error  string
	Data   []byte
	Trace  string // trace id of the request
}

// requester is an event with a reply subject.
type requester interface {
	events.Event
	SetReply(subject string)
}

// ErrDuplicate is returned for an event id that was used within the last two minutes. The first requester gets the
// reply.
var ErrDuplicate = errors.New("duplicate id: already submitted; the first requester gets the reply")

// Request publishes an event and waits for its reply. If ctx ends first, the event stays stored and is still handled.
func (c *Conn) Request(ctx context.Context, e requester, m PublishOptions) (*Reply, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe to reply: %w", err)
	}
	defer sub.Unsubscribe()
	e.SetReply(inbox)
	r, err := denied.Call(ctx, c.watch, inbox, func(ctx context.Context) (Receipt, error) { return c.Publish(ctx, e, m) })
	if err != nil {
		return nil, err
	}
	if r.Duplicate {
		return nil, fmt.Errorf("%s %s: %w", e.Kind(), e.EventID(), ErrDuplicate)
	}
	msg, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for reply to %s: %w", e.Kind(), err)
	}
	reply := &Reply{Handle: events.Handle(msg.Header.Get(events.HeaderHandle)), Error: msg.Header.Get(events.HeaderError), Data: msg.Data, Trace: r.Trace}
	if name := msg.Header.Get(events.HeaderBlob); name != "" {
		if reply.Data, err = c.getBlob(ctx, name); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// Log returns the logger of the connection.
func (c *Conn) Log() *zerolog.Logger { return &c.log }
