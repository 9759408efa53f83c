package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events/bus"
)

// setup makes on a server what the roles need, so that they need no right to make anything.
type setup struct {
	app.NATS
	Wait time.Duration `help:"Wait so long for a server that does not answer yet." placeholder:"DURATION" default:"0s"`
}

// Help implements kong.HelpProvider.
func (*setup) Help() string {
	return `Makes the streams, the buckets and the roles' durable consumers where they are missing, and prints what is there. What
exists is left as it is, apart from the consumers' policy (--ack-wait). A server without users needs no setup: there the
programs make what they miss.

Examples:

  debrief setup --nats tls://nats:4222 --ca secrets/ca.pem --nkey secrets/debrief/operator.nk --replicas 3
  debrief setup --wait 1m`
}

// Run implements the command.
func (s *setup) Run(ctx context.Context, c *app.Common) error {
	if s.Wait < 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--wait: cannot be negative, got %s", s.Wait))
	}
	nc, conn, err := s.connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer nc.Close()
	within, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := conn.Durables(within); err != nil {
		return err
	}
	all, err := conn.Streams(within)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "stream\treplicas\tmessages\tconsumers\n")
	for _, st := range all {
		console.Fprintf(w, "%s\t%d\t%d\t%d\n", st.Name, st.Replicas, st.Messages, st.Consumers)
	}
	return w.Flush()
}

// connect waits for a server, and for its streams: a cluster that has just begun has no leader yet.
func (s *setup) connect(ctx context.Context, log zerolog.Logger) (*nats.Conn, *bus.Conn, error) {
	for until := time.Now().Add(s.Wait); ; {
		nc, err := s.Dial("debrief", log)
		if err == nil {
			var conn *bus.Conn
			if conn, err = s.Open(ctx, nc, "", log); err == nil {
				return nc, conn, nil
			}
			nc.Close()
		}
		if app.ExitCode(err) != app.ExitUnreachable || !time.Now().Before(until) {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, errors.Join(ctx.Err(), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}
