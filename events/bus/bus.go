// Package bus carries events over JetStream. It owns the streams, the worker loop, the failure policy and the dead
// letters. A handler takes events and returns events or an error. It never sees a message, an ack or a retry.
//
// # Attempts
//
// The server redelivers a message without limit. The worker counts the attempts and stores a dead letter instead of
// starting attempt six. An attempt starts when the handler starts. A delivery is not an attempt while its message is held, or if
// the worker releases the message: see attempts.go. The worker records this in the bucket "attempts" when a hold starts and before it
// releases a message. So neither a crash of a worker nor a crash of the server loses a message or the count.
// A message has an effect or a dead letter, in a few cases both: see deadletter.go.
//
// # Useless output
//
// The output of a model can be useless for one message, or for all messages because the prompt is broken. One message
// must not stop a role, and a broken prompt must not cost messages. So a message with useless output is retried with
// backoff. The fault is assigned to the message only if the model gave useful output for another message after the
// first failure of this one. Before that, and while the role is paused, only its tenth useless output makes it a dead letter.
//
// One attempt is up to four calls of the model (chat.Ask), so a message becomes a dead letter after 20 invalid replies.
// Independent faults do that rarely: with 60 % invalid replies once in 27,000 messages.
//
// A role pauses if the outputs for ten new messages in a row are useless. It also pauses if the output for one message is still useless
// in the second half of its attempts, and no other message had useful output meanwhile. A paused role holds those messages
// and probes: it tries one message after 1 s, 2 s, 4 s and so on, at last every minute. The role probes with a new
// message from the stream while it holds fewer than 128, and otherwise with one that it holds. The first useful output ends
// the pause, so a pause that began by chance is short. A role that takes batches releases messages instead of holding
// them, because a held message blocks its book. Such a release does not count as an attempt.
package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/events/natserr"
	"debrief/events/redact"
)

// Conn is a connection to the streams of one account. Its methods publish events and run roles; its fields group everything
// else. It is safe for concurrent use.
type Conn struct {
	Events      *Reader      // reads stored events
	DeadLetters *DeadLetters // lists, requeues and drops dead letters
	Consumers   *Consumers   // creates the consumers of the roles, and reads how far they are behind
	Health      *Health      // the states of the roles in this process
	Stats       *Stats       // the counters of the roles in this process

	*link
	publisher *publisher
}

// link is the connection to the server, its configuration, and the reads of single messages. All parts of a Conn share it.
type link struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	watch  *natserr.Watch
	direct *direct.Reader
	blobs  *blob.Store
	erased *erasure.Filter
	policy Policy
	log    zerolog.Logger
	tracer trace.Tracer // nil disables tracing
}

// Options configures Open and Attach.
type Options struct {
	Policy   Policy
	Replicas int            // replicas of the streams that Open creates; default 1
	Log      zerolog.Logger // the zero value logs nothing, also no errors of roles
	// Role limits Open to the streams that this role uses. Empty means all streams.
	Role string
	// ReadOnly makes Open create nothing. Streams may then be missing.
	ReadOnly bool
	Tracer   trace.Tracer // for the spans of publishes and deliveries; nil disables tracing
}

// Open returns a connection to the streams and buckets. It creates the missing ones, if the user has the rights.
// The caller closes nc. If the server denies a request, Open and every method of Conn return a *DeniedError. Open
// returns a *streams.ConfigError if the configuration of an existing stream does not fit, and natserr.ErrNoStreams if ReadOnly is set
// and no stream exists.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	c := newConn(nc, js, o)
	c.tracer = o.Tracer
	if err := c.ensure(ctx, o); err != nil {
		if noJetStream(err) {
			return nil, fmt.Errorf("the server at %s has no JetStream in this user's account, or the account does not import it: start the server with JetStream, or "+
				"connect with a key of 'debrief credentials' and have the server read the accounts.conf that it writes: %w", redact.Address(nc.ConnectedUrl()), err)
		}
		return nil, err
	}
	return c, nil
}

// Attach returns a connection without checking or creating streams. It is for programs that run none of the roles. They may read and
// publish if the streams exist. If a stream is missing, a publish returns an error that names it.
func Attach(nc *nats.Conn, o Options) (*Conn, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return newConn(nc, js, o), nil
}

func newConn(nc *nats.Conn, js jetstream.JetStream, o Options) *Conn {
	watch := natserr.NewWatch(nc)
	js = natserr.JetStream(js, watch)
	l := &link{
		nc: nc, js: js, watch: watch, direct: direct.NewReader(nc, watch), blobs: blob.New(js), erased: erasure.NewFilter(js),
		policy: o.Policy.WithDefaults(), log: o.Log,
	}
	p := &publisher{link: l, stats: new(Stats), storeState: storeState{failures: make(map[string]*streamFailure)}}
	letters := &DeadLetters{l, p}
	return &Conn{
		Events: &Reader{l}, DeadLetters: letters, Consumers: &Consumers{l, letters}, Health: &Health{link: l}, Stats: p.stats,
		link: l, publisher: p,
	}
}

// noJetStream reports whether the account has no JetStream and imports none.
func noJetStream(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// JetStream returns the JetStream of the connection, for the package that stores playbooks.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// NATS returns the NATS connection, for the request-reply service.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// Reply is the message on a reply subject: the payload of an answer, or the reason of a failure.
type Reply struct {
	Handle events.Handle
	Error  string
	Data   []byte
	Trace  string // trace id of the request

	request events.Event
}

// Decode decodes the payload into v, a pointer to the type of the answer. It returns a *DeadLetterError if the event became a dead
// letter.
func (r *Reply) Decode(v any) error {
	if r.Error != "" {
		return &DeadLetterError{Kind: r.request.Kind(), ID: r.request.EventID(), Reason: r.Error}
	}
	if err := events.UnmarshalReply(r.request.InBook(), r.Data, v); err != nil {
		return fmt.Errorf("decode the reply to %s %s: %w", r.request.Kind(), r.request.EventID(), err)
	}
	return nil
}

// DeadLetterError is the error of an event that a role could not handle: it is a dead letter now.
type DeadLetterError struct {
	Kind   events.Kind
	ID     events.ID
	Reason string
}

func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("%s %s: dead-lettered: %s", e.Kind, e.ID, e.Reason)
}

// Request publishes an event, waits until its role has handled it, and returns the answer: the *events.Execution of an
// *events.Task, or the *events.EditReply of an *events.Edit. If ctx ends first, the event stays stored and is still handled, but its
// answer is lost: read the effect from the stream or the playbook. A second Request with the same id returns ErrDuplicate. A refused edit
// is an answer: see EditReply.Err. Errors are ErrDuplicate, *DeadLetterError, the errors of Conn.Publish, or the error of ctx. The handle of the
// execution is in the Reply of Conn.Request.
func Request[T events.Execution | events.EditReply](ctx context.Context, c *Conn, e events.Event, o PublishOptions) (*T, error) {
	_, isTask := e.(*events.Task)
	if _, isExecution := any(new(T)).(*events.Execution); isTask != isExecution { // MessagePack would decode some fields
		return nil, fmt.Errorf("request: the answer to a %s is not a %T", e.Kind(), *new(T))
	}
	reply, err := c.Request(ctx, e, o)
	if err != nil {
		return nil, err
	}
	answer := new(T)
	if err := reply.Decode(answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// ErrDuplicate is returned for an event id that was used within the last two minutes. The first requester gets the
// reply.
var ErrDuplicate = errors.New("duplicate id: already submitted; the first requester gets the reply")

// Request publishes an event with a new inbox in ReplyTo, and waits for its reply. The function Request also decodes the
// reply. If ctx ends first, the event stays stored and is still handled.
func (c *Conn) Request(ctx context.Context, e events.Event, o PublishOptions) (*Reply, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe to reply: %w", err)
	}
	defer sub.Unsubscribe()
	o.ReplyTo = inbox
	r, err := natserr.Call(ctx, c.watch, inbox, func(ctx context.Context) (Receipt, error) { return c.Publish(ctx, e, o) })
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
	reply := &Reply{
		Handle: events.Handle(msg.Header.Get(events.HeaderHandle)), Error: msg.Header.Get(events.HeaderError),
		Data: msg.Data, Trace: r.Trace, request: e,
	}
	if name := msg.Header.Get(events.HeaderBlob); name != "" {
		if reply.Data, err = c.getBlob(ctx, name); err != nil {
			return nil, err
		}
	}
	return reply, nil
}
