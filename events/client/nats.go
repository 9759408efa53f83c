package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"debrief/events"
)

// NATS returns a client that sends requests on a connection. Generators with endpoints answer them, see generator.New. The size of a request is
// limited by max_payload of the server.
func NATS(nc *nats.Conn) *Client { return &Client{transport: natsTransport{nc}, delay: defaultDelay} }

type natsTransport struct{ nc *nats.Conn }

func (t natsTransport) send(ctx context.Context, m *message) ([]byte, error) {
	verb, book := m.verb, cmp.Or(m.book, events.DefaultBook)
	if err := book.Validate(); err != nil {
		return nil, &Error{Verb: verb, Code: http.StatusBadRequest, Text: err.Error()}
	}
	subject, header := m.caller.Request(verb, book)
	msg := &nats.Msg{Subject: subject, Header: header, Data: m.body}
	if m.trace != "" {
		msg.Header.Set(events.HeaderTrace, m.trace)
	}
	reply, err := t.nc.RequestMsgWithContext(ctx, msg)
	switch {
	case errors.Is(err, nats.ErrMaxPayload): // the limit includes the headers
		text := fmt.Sprintf("request too large: %d bytes and headers, the NATS server accepts %d: shorten the steps, or raise max_payload", len(m.body), t.nc.MaxPayload())
		return nil, &Error{Verb: verb, Code: http.StatusRequestEntityTooLarge, Text: text}
	case errors.Is(err, nats.ErrNoResponders):
		return nil, &Error{Verb: verb, Text: "no service answers: start a generator with endpoints, or 'debrief up'", Err: err}
	case err != nil:
		return nil, &Error{Verb: verb, Text: err.Error(), Err: err}
	}
	text := reply.Header.Get(micro.ErrorHeader)
	if text == "" {
		return reply.Data, nil
	}
	code, err := strconv.Atoi(reply.Header.Get(micro.ErrorCodeHeader))
	if err != nil {
		code = http.StatusInternalServerError
	}
	return nil, &Error{Verb: verb, Code: code, Text: text, Delay: seconds(reply.Header.Get("Retry-After"))}
}

// seconds returns the duration of a Retry-After header, or 0.
func seconds(header string) time.Duration {
	n, err := strconv.Atoi(header)
	if err != nil || n < 0 || n > int(time.Hour/time.Second) {
		return 0
	}
	return time.Duration(n) * time.Second
}
