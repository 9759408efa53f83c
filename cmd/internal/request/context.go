package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/generator"
)

// Headers of an error reply of a NATS service.
const (
	headerErrorCode = "Nats-Service-Error-Code"
	headerErrorText = "Nats-Service-Error"
)

const (
	serviceTimeout = 15 * time.Second
	// historyTimeout is the time to load history. After it the context is built with the part that was loaded.
	historyTimeout = 20 * time.Second
)

// ServiceError is an error reply of a generator's service. Code is an HTTP status code.
type ServiceError struct{ Code, Text string }

func (e *ServiceError) Error() string { return e.Text }

// Invalid reports whether the request was invalid.
func (e *ServiceError) Invalid() bool { return e.Code == "400" }

// NotFound reports whether the object of the request was not found.
func (e *ServiceError) NotFound() bool { return e.Code == "404" }

// Context requests a context from a generator's service. It builds the context in this process if no service runs, or if
// cfg differs from the default configuration: the service has its own. Local reports whether this process built the
// context. A refused request returns a *ServiceError, or an error of the context builder.
func Context(ctx context.Context, conn *bus.Conn, cfg generator.Config, r *events.ContextRequest) (reply *events.ContextReply, local bool, err error) {
	if cfg.WithDefaults() == (generator.Config{}).WithDefaults() {
		reply, err := requestContext(ctx, conn.NATS(), r)
		if !errors.Is(err, nats.ErrNoResponders) {
			return reply, false, err
		}
	}
	builder := generator.NewContextBuilder(conn, nil, cfg)
	defer builder.Close()
	builder.WaitLoaded(ctx, r.Book, historyTimeout)
	reply, err = builder.Context(ctx, r)
	return reply, true, err
}

// requestContext requests a context from the service.
func requestContext(ctx context.Context, nc *nats.Conn, r *events.ContextRequest) (*events.ContextReply, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, events.ServiceSubject(events.VerbContext, r.Book), body)
	if err != nil {
		return nil, err
	}
	if code := msg.Header.Get(headerErrorCode); code != "" {
		return nil, &ServiceError{code, msg.Header.Get(headerErrorText)}
	}
	reply := new(events.ContextReply)
	if err := json.Unmarshal(msg.Data, reply); err != nil {
		return nil, fmt.Errorf("read the service's reply: %w", err)
	}
	return reply, nil
}
