// Package bus carries events over JetStream. It owns the streams, the one worker loop with its failure policy, and
// dead letters. Handlers take events and return events or an error; they never see a message, an ack or a retry.
//
// # Attempts
//
// The server redelivers a message without limit. The worker counts attempts, and stores a dead letter before it would
// begin one over the limit of five. A delivery counts as an attempt from when its handler begins. It does not count while
// the message is held, nor when it is given back before its handler began, at a stop or during a pause. The worker
// stores that in the bucket "attempts" before it gives the message back and when a hold begins; so neither the death of a
// worker nor that of the server loses a message or the count. A message has either an effect or a dead letter: see dead.go.
//
// # Useless output
//
// The output of a model can be useless for one message, or for all because of its prompt. One message must not stop a role,
// and a broken prompt must not cost messages. A message whose output was useless is retried with back-off. Useless output
// counts against it only when the model's output was useful for another message since the first time. Until then, and
// while the role is paused, it never becomes a dead letter.
//
// A role pauses when output was useless for 20 new messages in a row, or for one message in the second half of its attempts,
// with no useful output in between. While paused it holds those messages and tries one message every 30 s: one more from
// the stream while it holds fewer than 128, else one of those. The first useful output ends the pause. A role that takes
// batches gives messages back instead of holding them, because a held one blocks its book; this does not count either.
package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/denied"
	"debrief/events/direct"
	"debrief/events/redact"
)

// Conn is a connection to the streams of one account.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	watch  *denied.Watch
	policy Policy
	log    zerolog.Logger
	tracer trace.Tracer // nil where nobody traces
	health health
	vitals vitals
	quiet  quiet
	store  store
}

// Options of Open.
type Options struct {
	Policy   Policy
	Replicas int // of streams that are created; default 1
	Log      zerolog.Logger
	// Role is the one that the connection is for. Only what it uses is asked for; empty is everything.
	Role   string
	Tracer trace.Tracer // of spans for what is handed in and for deliveries; nil is none
}

// Open makes sure that the streams and buckets exist and returns a connection to them. It does not own nc. What is
// missing is made, where the server lets this user. Refusals are a *DeniedError, here and in every call of the connection;
// streams that do not suit are an *UnsuitableError.
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Conn, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	watch := denied.New(nc)
	c := &Conn{nc: nc, js: denied.JetStream(js, watch), watch: watch, policy: o.Policy.WithDefaults(), log: o.Log, tracer: o.Tracer}
	if err := c.ensure(ctx, o.Role, max(o.Replicas, 1)); err != nil {
		if noJetStream(err) {
			return nil, fmt.Errorf("the server at %s has no JetStream in this user's account, or the account does not import it: start the server with JetStream, or "+
				"connect with a key of 'debrief credentials' and have the server read the accounts.conf that it writes: %w", redact.Address(nc.ConnectedUrl()), err)
		}
		return nil, err
	}
	return c, nil
}

// noJetStream reports an error of an account without JetStream and without imports of it.
func noJetStream(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
}

// JetStream is the connection's JetStream, for the package that stores playbooks.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// NATS is the connection itself, for the service that answers over it.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// Receipt says where an event was stored.
type Receipt struct {
	Seq       uint64
	Handle    events.Handle
	Duplicate bool   // the server had it already
	Trace     string // the event's trace id; empty where the server had it already, in a trace of its own
}

// Marks are what a message carries besides its event.
type Marks struct {
	Repeat bool   // it may have been published before; see events.HeaderRepeat
	Trace  string // W3C trace context of what it comes of; where that is none the context's, or else a new one
	// Copy, if not 0, has another copy stored though the server may remember the event's id: the first copy was given up.
	Copy int
}

// copyMark stands between an event's id and the number of a copy. It is in no id.
const copyMark = "~"

// MaxInline is the largest payload that travels in the message itself, in bytes.
const MaxInline = 512 << 10

// Publish stores an event and returns when the server says it is stored. A *FullError says that there is no room. Secrets
// in the event's texts are replaced first, in the event itself, so that what is made of it afterwards has none either.
func (c *Conn) Publish(ctx context.Context, e events.Event, m Marks) (Receipt, error) {
	ctx, span := c.offer(ctx, e, &m)
	defer span.End()
	r, _, err := c.publish(ctx, e, m)
	fail(span, err)
	return r, err
}

func (c *Conn) publish(ctx context.Context, e events.Event, m Marks, opts ...jetstream.PublishOpt) (Receipt, *nats.Msg, error) {
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
		name, err := c.putBlob(ctx, data)
		if err != nil {
			return Receipt{}, nil, fmt.Errorf("publish %s: %w", subject, asFull(unanswered(ctx, err)))
		}
		msg.Header[events.HeaderBlob] = []string{name}
		msg.Data = nil
	}
	id := string(e.EventID())
	if m.Copy != 0 {
		id += copyMark + strconv.Itoa(m.Copy)
	}
	pub, err := c.put(ctx, home(e.Kind()), msg, append(opts, jetstream.WithMsgID(id))...)
	if err != nil {
		return Receipt{}, nil, fmt.Errorf("publish %s: %w", subject, asUnserved(err))
	}
	r := Receipt{Seq: pub.Sequence, Handle: events.NewHandle(pub.Sequence, e.EventID()), Duplicate: pub.Duplicate}
	if !r.Duplicate {
		r.Trace = events.TraceID(m.Trace)
	}
	return r, msg, nil
}

// original is the message of an event that its stream had already, nil where it is gone again.
func (c *Conn) original(ctx context.Context, k events.Kind, seq uint64) (*nats.Msg, error) {
	m, err := c.stored(ctx, home(k), seq)
	if m == nil || err != nil {
		return nil, err
	}
	header := nats.Header{}
	maps.Copy(header, m.Header)
	return &nats.Msg{Header: header, Data: m.Data}, nil
}

// stored is the message that a stream holds at a sequence, nil where it is gone.
func (c *Conn) stored(ctx context.Context, stream string, seq uint64) (*jetstream.RawStreamMsg, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", stream, unanswered(ctx, err))
	}
	m, err := c.get(ctx, s, stream, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", stream, seq, unanswered(ctx, err))
	}
	return m, nil
}

// get is the message of an open stream.
func (c *Conn) get(ctx context.Context, s jetstream.Stream, stream string, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return denied.Call(ctx, c.watch, stream, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return s.GetMsg(ctx, seq, opts...)
	})
}

// unanswered is err, as nats.ErrTimeout where the client gave up waiting by itself: that is the server's silence, unlike
// the end of the caller's own context.
func unanswered(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w (%v)", nats.ErrTimeout, err)
	}
	return err
}

// asUnserved adds the possible causes to the error of a publish without a receiver.
func asUnserved(err error) error {
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("%w: its stream has no leader or is gone, or the account of this user does not import the subject ('debrief doctor' with the user's key says which)", err)
	}
	return err
}

func asFull(err error) error {
	if full(err) {
		return &FullError{err}
	}
	return err
}

// errExpired is the reason of a dead letter whose payload is gone.
var errExpired = errors.New("payload expired")

func (c *Conn) putBlob(ctx context.Context, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	store, err := c.js.ObjectStore(ctx, events.BucketBlobs)
	if err != nil {
		return "", fmt.Errorf("open object store: %w", err)
	}
	err = denied.Do(ctx, c.watch, blobStream, func(ctx context.Context) error {
		// One that is there and young is left alone: to write it again would pull it from under its readers.
		if i, err := store.GetInfo(ctx, name); err == nil && time.Since(i.ModTime) < 24*time.Hour {
			return nil
		}
		// The parts of an old one, which not everybody may delete, go by age.
		return denied.Do(ctx, c.watch, blobPrefix, func(ctx context.Context) error {
			_, err := store.PutBytes(ctx, name, data)
			return err
		})
	})
	if err != nil {
		return "", fmt.Errorf("put blob %s: %w", name, err)
	}
	return name, nil
}

// blobStream is what the object store is made of, and blobPrefix what its subjects begin with.
const (
	blobStream = "OBJ_" + events.BucketBlobs
	blobPrefix = "$O." + events.BucketBlobs
)

// maxBlob bounds what is read for one event.
const maxBlob = 64 << 20

func (c *Conn) getBlob(ctx context.Context, name string) ([]byte, error) {
	store, err := c.js.ObjectStore(ctx, events.BucketBlobs)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", unanswered(ctx, err))
	}
	info, err := denied.Call(ctx, c.watch, blobStream, func(ctx context.Context) (*jetstream.ObjectInfo, error) { return store.GetInfo(ctx, name) })
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, Discard(fmt.Errorf("blob %s: %w", name, errExpired))
	case err != nil:
		return nil, fmt.Errorf("get blob %s: %w", name, unanswered(ctx, err))
	case info.Size > maxBlob:
		return nil, Discard(fmt.Errorf("blob %s: has %d bytes, more than %d", name, info.Size, maxBlob))
	}
	// The store's own read makes a consumer, which takes a right that nobody needs for anything else.
	var data []byte
	err = denied.Do(ctx, c.watch, blobStream, func(ctx context.Context) error {
		return direct.Read(ctx, c.nc, blobStream, direct.Query{Subject: blobPrefix + ".C." + info.NUID}, func(m direct.Message) error {
			if data = append(data, m.Data...); uint64(len(data)) > info.Size {
				return errForeign
			}
			return nil
		})
	})
	switch {
	case err != nil && !errors.Is(err, errForeign):
		return nil, fmt.Errorf("get blob %s: %w", name, unanswered(ctx, err))
	case err == nil && uint64(len(data)) < info.Size: // or not there yet, on a replica that is behind
		return nil, fmt.Errorf("get blob %s: %d of %d bytes are there", name, len(data), info.Size)
	}
	if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != name {
		return nil, Discard(fmt.Errorf("blob %s: %w", name, errForeign))
	}
	return data, nil
}

// errForeign is the reason of a dead letter whose payload is another one.
var errForeign = errors.New("content does not match its name")

// decode is the event of a message, its blob fetched.
func (c *Conn) decode(ctx context.Context, m jetstream.Msg) (events.Event, error) {
	return c.decodeStored(ctx, m.Subject(), m.Headers(), m.Data())
}

func (c *Conn) decodeStored(ctx context.Context, subject string, header nats.Header, data []byte) (events.Event, error) {
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

// Reply is what came back on a reply subject: an answer's payload, or the reason why there is none.
type Reply struct {
	Handle  events.Handle
	Refused string
	Data    []byte
	Trace   string // the trace id of what was asked
}

// requester is an event that can say where its answer should go.
type requester interface {
	events.Event
	SetReply(subject string)
}

// ErrDuplicate is returned to who asks under an id that was used within the last two minutes: the answer goes to the
// one who asked first.
var ErrDuplicate = errors.New("was handed in before, under the same id; its answer goes to who asked first")

// Request publishes an event and waits for its reply. When the context ends first the event is still stored and will
// be handled.
func (c *Conn) Request(ctx context.Context, e requester, m Marks) (*Reply, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe to a reply: %w", err)
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
		return nil, fmt.Errorf("wait for the reply to %s: %w", e.Kind(), err)
	}
	reply := &Reply{Handle: events.Handle(msg.Header.Get(events.HeaderHandle)), Refused: msg.Header.Get(events.HeaderError), Data: msg.Data, Trace: r.Trace}
	if name := msg.Header.Get(events.HeaderBlob); name != "" {
		if reply.Data, err = c.getBlob(ctx, name); err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// Log is where the connection's owner logs.
func (c *Conn) Log() *zerolog.Logger { return &c.log }
