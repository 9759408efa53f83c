package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/bus"
)

// Setup creates the streams, buckets and consumers of the roles, so that the roles need no permission to create them.
type Setup struct {
	program.NATS
	cli.NoGateway
	WaitServer time.Duration `help:"Longest wait for a server that does not answer yet." placeholder:"DURATION" default:"0s"`
	JSON       bool          `help:"Print one JSON document: the streams."`
}

// Help implements kong.HelpProvider.
func (*Setup) Help() string {
	return `Create missing streams, buckets and durable consumers, and list the streams. Existing ones do not change, except the
ack wait of the consumers (--ack-wait), and that streams no longer allow rollups. A server without users needs no setup: the programs create them.

Examples:

  debrief setup --nats nats://nats:4222 --replicas 3
  debrief setup --wait-server 1m`
}

// Check returns an error for each invalid setting.
func (s *Setup) Check() error { return errors.Join(s.NoGateway.Check(), s.NATS.Check()) }

// Run implements the command.
func (s *Setup) Run(ctx context.Context, c *program.Common) error {
	if s.WaitServer < 0 {
		return program.Exit(program.ExitUsage, fmt.Errorf("--wait-server: must be at least 0, got %s", s.WaitServer))
	}
	nc, conn, err := s.connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer nc.Close()
	within, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := conn.Consumers.Create(within); err != nil {
		return err
	}
	all, err := conn.Streams(within)
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.WriteJSON(term.Stdout, all)
	}
	return term.PrintTable(term.Stdout, "stream\treplicas\tmessages\tconsumers", all, func(w io.Writer, s bus.StreamState) {
		term.Fprintf(w, "%s\t%d\t%d\t%d\n", s.Name, s.Replicas, s.Messages, s.Consumers)
	})
}

// connect connects to the server and opens its streams. It waits up to --wait-server for the server.
func (s *Setup) connect(ctx context.Context, log zerolog.Logger) (nc *nats.Conn, conn *bus.Conn, err error) {
	defer term.Doing("waiting for the server")()
	err = program.RetryUnreachable(ctx, s.WaitServer, func() error {
		var err error
		nc, err = s.Dial("debrief", log)
		if err != nil {
			return err
		}
		conn, err = s.Open(ctx, nc, "", log)
		if err != nil {
			nc.Close()
		}
		return err
	})
	return nc, conn, err
}
