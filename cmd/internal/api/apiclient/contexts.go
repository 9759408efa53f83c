package apiclient

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/client"
	"debrief/generator"
)

// historyTimeout is the time to load history. After it the context is built with the part that was loaded.
const historyTimeout = 20 * time.Second

// contexts builds the contexts of a command: by a generator's service with its settings, or in this process.
type contexts struct {
	*generator.ContextBuilder
	conn           *bus.Conn
	hasOwnSettings bool // the settings are not the default: the service cannot build the context

	served bool // the service answered the last request
}

// Context implements service.Backend.
func (b *contexts) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	if !b.hasOwnSettings {
		service := client.NATS(b.conn.NATS())
		service.Trace = bus.Traceparent
		reply, err := service.Context(ctx, r)
		if !errors.Is(err, nats.ErrNoResponders) { // without a generator this process builds the context
			b.served = true
			return reply, err
		}
	}
	b.served = false
	b.WaitLoaded(ctx, r.Book, historyTimeout)
	return b.ContextBuilder.Context(ctx, r)
}

// Builder names the builder of the last context, for people.
func (a *Client) Builder() string {
	switch {
	case a.contexts == nil:
		return "by the gateway"
	case a.contexts.served:
		return "by the generator's service"
	}
	return "by this command"
}
