// Package direct reads many messages of a stream in one round trip, without a consumer: by the direct gets of JetStream
// (NATS ADR-31), which a stream must allow. Any replica answers, and one that lags does not have the newest messages.
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
)

// Message is a message as a stream holds it.
type Message struct {
	Subject string
	Seq     uint64
	Header  nats.Header // those it was published with; the server's come after them
	Data    []byte
}

// Removed reports whether it only says, in a key-value bucket, that its key is gone.
func (m *Message) Removed() bool { return m.Header.Get("KV-Operation") != "" }

// Stored is when the server stored it, by its clock.
func (m *Message) Stored() time.Time {
	all := m.Header["Nats-Time-Stamp"]
	if len(all) == 0 {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339Nano, all[len(all)-1])
	return t
}

// Query says which messages of a stream: all on a subject, which may have wildcards, or the last of each of several.
type Query struct {
	Subject string   `json:"next_by_subj,omitempty"`
	Last    []string `json:"multi_last,omitempty"` // MaxLast at most
	From    uint64   `json:"seq,omitempty"`        // none before this sequence

	Since time.Time `json:"start_time,omitzero"` // none stored before it; without From
}

// MaxLast is how many subjects the server takes in one query.
const MaxLast = 1024

// One answer holds so many messages and, give or take one, bytes; then the next is asked for. The server's own limit of
// bytes is as much as it lets wait for a client before it takes it for a slow one and hangs up.
const (
	answerMessages = 1000
	answerBytes    = 8 << 20
	answerTimeout  = 5 * time.Second // for as long the server may be silent
	api            = "$JS.API.DIRECT.GET."
)

// Read calls fn for every message that a query asks for, in the order of the stream, and ends with the first error of
// fn. Nothing there is no error. The server answers a thousand messages at a time, each thousand from one consistent
// moment; what is written meanwhile may be read, too. A server that is silent for five seconds is nats.ErrTimeout, a
// stream that is not there nats.ErrNoResponders.
func Read(ctx context.Context, nc *nats.Conn, stream string, q Query, fn func(Message) error) error {
	// There is room for one answer and its end. The channel that the client would make is 65 times that: its half
	// megabyte was most of what a short read allocated, and a quarter of its time.
	in := inbox{make(chan *nats.Msg, answerMessages+1), make(chan struct{}), time.NewTimer(answerTimeout)}
	defer in.silence.Stop()
	subject := nc.NewInbox()
	sub, err := nc.ChanSubscribe(subject, in.messages)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	sub.SetClosedHandler(func(string) { close(in.closed) })
	if q.Since.IsZero() {
		q.From = max(q.From, 1)
	}
	for more := true; more; {
		req, err := json.Marshal(struct {
			Query
			Batch    int `json:"batch"`
			MaxBytes int `json:"max_bytes"`
		}{q, answerMessages, answerBytes})
		if err != nil {
			return err
		}
		if err := nc.PublishRequest(api+stream, subject, req); err != nil {
			return err
		}
		next, err := in.answer(ctx, fn)
		if err != nil {
			return err
		}
		q.From, q.Since, more = next, time.Time{}, next > 0
	}
	return nil
}

// Count returns the number of messages under a subject, which may have wildcards. Its errors are those of Read.
func Count(ctx context.Context, nc *nats.Conn, stream, subject string) (n uint64, err error) {
	// The reply to a batch of one contains the number of further messages.
	in := inbox{make(chan *nats.Msg, 2), make(chan struct{}), time.NewTimer(answerTimeout)}
	defer in.silence.Stop()
	to := nc.NewInbox()
	sub, err := nc.ChanSubscribe(to, in.messages)
	if err != nil {
		return 0, err
	}
	defer sub.Unsubscribe()
	sub.SetClosedHandler(func(string) { close(in.closed) })
	req, err := json.Marshal(struct {
		Query
		Batch int `json:"batch"`
	}{Query{Subject: subject, From: 1}, 1})
	if err != nil {
		return 0, err
	}
	if err := nc.PublishRequest(api+stream, to, req); err != nil {
		return 0, err
	}
	reply, err := in.next(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := parse(reply); errors.Is(err, io.EOF) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	more, err := strconv.ParseUint(said(reply, "Nats-Num-Pending"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("number of pending messages of a direct get: %w", err)
	}
	return more + 1, nil
}

// Last is the last message on a subject, nil if there is none. It is cheaper than a Read of one, and its errors are those.
func Last(ctx context.Context, nc *nats.Conn, stream, subject string) (last *Message, err error) {
	wait, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	reply, err := nc.RequestWithContext(wait, api+stream+"."+subject, nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, nats.ErrTimeout
	case errors.Is(err, nats.ErrNoResponders): // which the client also makes of an empty message stored with that status
		err = Read(ctx, nc, stream, Query{Last: []string{subject}}, func(m Message) error { last = &m; return nil })
		return last, err
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

// inbox is where the answers to a query come in.
type inbox struct {
	messages chan *nats.Msg
	closed   chan struct{} // with the connection, or when the caller is done
	silence  *time.Timer
}

// answer consumes one answer and returns where the next begins, 0 if this was the last.
func (in *inbox) answer(ctx context.Context, fn func(Message) error) (next uint64, err error) {
	for {
		reply, err := in.next(ctx)
		if err != nil {
			return 0, err
		}
		m, err := parse(reply)
		switch {
		case errors.Is(err, io.EOF):
			if reply.Header.Get("Nats-Num-Pending") == "0" {
				return 0, nil
			}
			return next, nil
		case err != nil:
			return 0, err
		}
		next = m.Seq + 1
		if err := fn(m); err != nil {
			return 0, err
		}
	}
}

func (in *inbox) next(ctx context.Context) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case m := <-in.messages: // most are here already: no need of a timer
		return m, nil
	default:
	}
	in.silence.Reset(answerTimeout)
	select {
	case m := <-in.messages:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-in.closed:
		return nil, nats.ErrConnectionClosed
	case <-in.silence.C:
		return nil, nats.ErrTimeout
	}
}

// parse is the stored message that the server sent, or io.EOF where it says that there is no more. A sequence tells the
// two apart, and not a status: that may be a header of the message.
func parse(m *nats.Msg) (Message, error) {
	if text := said(m, "Nats-Sequence"); text != "" {
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return Message{}, fmt.Errorf("sequence of a direct get: %w", err)
		}
		return Message{said(m, "Nats-Subject"), seq, m.Header, m.Data}, nil
	}
	switch status := m.Header.Get("Status"); status {
	case "204", "404":
		return Message{}, io.EOF
	case "503":
		return Message{}, nats.ErrNoResponders
	default:
		return Message{}, fmt.Errorf("answer of a direct get: status %q, %q", status, m.Header.Get("Description"))
	}
}

// said is what the server says of a stored message. It adds its headers to those that were published, and a message
// that somebody copied with all its headers has the name twice.
func said(m *nats.Msg, name string) string {
	values := m.Header[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
