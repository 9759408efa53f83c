package request

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

// Context requests a context from a generator's service. It builds the context in this process if no service runs, or if
// cfg differs from the default configuration: the service has its own. Local reports whether this process built the
// context. A refused request returns a *client.Error, or an error of the context builder.
func Context(ctx context.Context, conn *bus.Conn, cfg generator.Config, r *events.ContextRequest) (reply *events.ContextReply, local bool, err error) {
	if cfg.WithDefaults() == (generator.Config{}).WithDefaults() {
		reply, err := client.NATS(conn.NATS()).Context(ctx, r)
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
