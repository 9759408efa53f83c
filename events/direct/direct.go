// Package direct reads many messages of a stream in one round trip, without a consumer. It uses the batched direct gets
// of JetStream (NATS ADR-31), which the stream must allow. Any replica may answer, and a lagging one lacks the newest
// messages. Rewrite copies the messages to new files of the stream, so that the server removes the old ones.
package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events/natserr"
)

// Message is a stored message.
type Message struct {
	Subject string
	Seq     uint64
	Header  nats.Header // as published, followed by the headers that the server adds
	Data    []byte
}

// Deleted reports whether the message is a delete marker of a key-value bucket.
func (m *Message) Deleted() bool { return m.Header.Get("KV-Operation") != "" }

// Stored returns the time of the server when it stored the message. It is zero if the message has none.
func (m *Message) Stored() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, serverHeader(m.Header, "Nats-Time-Stamp"))
	return t
}

// Query selects messages: either all of Subject, or the last one of each subject in Last. Subjects may have wildcards.
type Query struct {
	Subject string    `json:"next_by_subj,omitempty"`
	Last    []string  `json:"multi_last,omitempty"` // at most MaxLast
	From    uint64    `json:"seq,omitempty"`        // only messages from this sequence on
	Since   time.Time `json:"start_time,omitzero"`  // only messages stored at this time or later; not with From
}

// MaxLast is the largest number of subjects that the server accepts in one query.
const MaxLast = 1024

// Limits of one reply: a number of messages and a number of bytes, which the last message may exceed. Then Read sends
// the next request. The server's own byte limit equals its limit of pending bytes for a slow consumer, at which it
// disconnects.
const (
	replyMessages = 1000
	replyBytes    = 8 << 20
	replyTimeout  = 5 * time.Second // longest wait for the next message
	apiPrefix     = "$JS.API.DIRECT.GET."
)

// Reader reads the streams of a connection. If the server denies a request, the methods of a Reader with a Watch return a
// *natserr.DeniedError.
type Reader struct {
	nc    *nats.Conn
	watch *natserr.Watch // may be nil
}

// NewReader returns a Reader of a connection.
func NewReader(nc *nats.Conn, w *natserr.Watch) *Reader { return &Reader{nc, w} }

// Read calls the function Read for a stream of the connection.
func (r *Reader) Read(ctx context.Context, stream string, q Query, fn func(Message) error) error {
	return natserr.Do(ctx, r.watch, stream, func(ctx context.Context) error { return Read(ctx, r.nc, stream, q, fn) })
}

// Read calls fn for every message of a query, in the order of the stream, until fn returns an error. It returns nil for
// an empty result. Each reply has up to a thousand messages from one consistent state; Read may also return messages
// that are stored meanwhile. It returns nats.ErrTimeout after five seconds without a message, nats.ErrDisconnected if a reconnect has lost
// messages of a reply, and nats.ErrNoResponders if the stream does not exist.
func Read(ctx context.Context, nc *nats.Conn, stream string, q Query, fn func(Message) error) error {
	in, err := openInbox(nc, replyMessages+1)
	if err != nil {
		return err
	}
	defer in.close()
	if q.Since.IsZero() {
		q.From = max(q.From, 1)
	}
	for {
		if err := in.request(stream, request{Query: q, Batch: replyMessages, MaxBytes: replyBytes}); err != nil {
			return err
		}
		next, err := in.readReply(ctx, fn)
		if err != nil {
			return err
		}
		if next == 0 {
			return nil
		}
		q.From, q.Since = next, time.Time{}
	}
}

// Counted is the result of Count.
type Counted struct {
	Messages uint64
	Oldest   time.Time // when the first of them was stored; zero without messages
}

// Count counts the messages of a subject, which may have wildcards, from a sequence on. It returns the same errors as Read.
func (r *Reader) Count(ctx context.Context, stream, subject string, from uint64) (Counted, error) {
	return natserr.Call(ctx, r.watch, stream, func(ctx context.Context) (Counted, error) { return r.count(ctx, stream, subject, from) })
}

func (r *Reader) count(ctx context.Context, stream, subject string, from uint64) (Counted, error) {
	in, err := openInbox(r.nc, 2)
	if err != nil {
		return Counted{}, err
	}
	defer in.close()
	// The reply to a batch of one message has the number of further messages in a header.
	if err := in.request(stream, request{Query: Query{Subject: subject, From: from}, Batch: 1}); err != nil {
		return Counted{}, err
	}
	reply, err := in.next(ctx)
	if err != nil {
		return Counted{}, err
	}
	m, err := parse(reply)
	if errors.Is(err, io.EOF) {
		return Counted{}, nil
	}
	if err != nil {
		return Counted{}, err
	}
	more, err := strconv.ParseUint(serverHeader(reply.Header, "Nats-Num-Pending"), 10, 64)
	if err != nil {
		return Counted{}, fmt.Errorf("parse reply of direct get: pending messages: %w", err)
	}
	return Counted{Messages: more + 1, Oldest: m.Stored()}, nil
}

// Last returns the last message of a subject, or nil. It costs less than Read, and returns the same errors.
func (r *Reader) Last(ctx context.Context, stream, subject string) (last *Message, err error) {
	last, err = r.get(ctx, stream, "."+subject, nil)
	if errors.Is(err, nats.ErrNoResponders) { // the client also returns this for an empty message that was stored with this status
		err = r.Read(ctx, stream, Query{Last: []string{subject}}, func(m Message) error { last = &m; return nil })
	}
	return last, err
}

// Get returns the message with a sequence, or nil. It returns the same errors as Read.
func (r *Reader) Get(ctx context.Context, stream string, seq uint64) (*Message, error) {
	return r.get(ctx, stream, "", fmt.Appendf(nil, `{"seq":%d}`, seq))
}

// Next returns the first message of a subject, which may have wildcards, from a sequence on, or nil. It returns the same errors as Read.
func (r *Reader) Next(ctx context.Context, stream, subject string, from uint64) (*Message, error) {
	query, err := json.Marshal(Query{Subject: subject, From: from})
	if err != nil {
		return nil, err
	}
	return r.get(ctx, stream, "", query)
}

// get requests one message of a stream. suffix is the end of the subject of the request. get returns nil if the server has no such message.
func (r *Reader) get(ctx context.Context, stream, suffix string, data []byte) (*Message, error) {
	wait, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	reply, err := natserr.Call(wait, r.watch, stream, func(ctx context.Context) (*nats.Msg, error) {
		return r.nc.RequestWithContext(ctx, apiPrefix+stream+suffix, data)
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, nats.ErrTimeout
	case err != nil:
		return nil, err
	}
	m, err := parse(reply)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// request is a batched direct get in the JSON of the server.
type request struct {
	Query
	Batch    int `json:"batch"`
	MaxBytes int `json:"max_bytes,omitempty"`
}

// inbox receives the replies to a query.
type inbox struct {
	nc       *nats.Conn
	subject  string
	sub      *nats.Subscription
	messages chan *nats.Msg
	closed   chan struct{} // closed with the connection, or by close
	timeout  *time.Timer
}

// openInbox subscribes to the replies to a query. size is the number of messages in one reply, including its end. The
// default channel of the client is 65 times larger than Read needs. Its half megabyte was most of the memory of a short
// read, and took a quarter of the time.
func openInbox(nc *nats.Conn, size int) (*inbox, error) {
	in := &inbox{nc: nc, subject: nc.NewInbox(), messages: make(chan *nats.Msg, size), closed: make(chan struct{}), timeout: time.NewTimer(replyTimeout)}
	sub, err := nc.ChanSubscribe(in.subject, in.messages)
	if err != nil {
		in.timeout.Stop()
		return nil, err
	}
	in.sub = sub
	in.sub.SetClosedHandler(func(string) { close(in.closed) })
	return in, nil
}

func (in *inbox) close() {
	in.timeout.Stop()
	_ = in.sub.Unsubscribe() // fails only on a closed connection
}

// request sends a request whose replies come to the inbox.
func (in *inbox) request(stream string, r request) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return in.nc.PublishRequest(apiPrefix+stream, in.subject, data)
}

// readReply calls fn for the messages of one reply. It returns the first sequence for the next request, or 0 if no messages are left.
func (in *inbox) readReply(ctx context.Context, fn func(Message) error) (next uint64, err error) {
	last := uint64(0) // sequence of the last message of the reply
	for {
		reply, err := in.next(ctx)
		if err != nil {
			return 0, err
		}
		before := serverHeader(reply.Header, "Nats-Last-Sequence") // of the message that the server has sent before this one
		if before != "" && before != strconv.FormatUint(last, 10) {
			return 0, fmt.Errorf("reply of direct get: messages after sequence %d are lost: %w", last, nats.ErrDisconnected)
		}
		m, err := parse(reply)
		switch {
		case errors.Is(err, io.EOF):
			if reply.Header.Get("Nats-Num-Pending") == "0" || last == 0 {
				return 0, nil
			}
			return last + 1, nil
		case err != nil:
			return 0, err
		}
		last = m.Seq
		if err := fn(m); err != nil {
			return 0, err
		}
	}
}

// next returns the next message. It waits for at most replyTimeout.
func (in *inbox) next(ctx context.Context) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case m := <-in.messages: // usually there is already a message, so save the timer
		return m, nil
	default:
	}
	in.timeout.Reset(replyTimeout)
	select {
	case m := <-in.messages:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-in.closed:
		return nil, nats.ErrConnectionClosed
	case <-in.timeout.C:
		return nil, nats.ErrTimeout
	}
}

// parse returns the stored message in a message of the reply, or io.EOF at the end of the reply. A stored message can have a
// status header of its own, so parse looks for a sequence first.
func parse(m *nats.Msg) (Message, error) {
	if sequence := serverHeader(m.Header, "Nats-Sequence"); sequence != "" {
		seq, err := strconv.ParseUint(sequence, 10, 64)
		if err != nil {
			return Message{}, fmt.Errorf("parse reply of direct get: sequence: %w", err)
		}
		return Message{Subject: serverHeader(m.Header, "Nats-Subject"), Seq: seq, Header: m.Header, Data: m.Data}, nil
	}
	switch status := m.Header.Get("Status"); status {
	case "204", "404": // the end of the reply, or no message matches
		return Message{}, io.EOF
	case "503": // the stream does not exist
		return Message{}, nats.ErrNoResponders
	default:
		return Message{}, fmt.Errorf("reply of direct get: status %q, %q", status, m.Header.Get("Description"))
	}
}

// serverHeader returns a header that the server has added. The server's header comes last: a message that was copied
// with all its headers has the name twice.
func serverHeader(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
