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
	"debrief/events/streams"
)

// Setup creates the streams, buckets and consumers of the roles, so that the roles need no permission to create them.
type Setup struct {
	program.NATS
	cli.NoGateway
	WaitServer time.Duration `help:"Longest wait for a server that does not answer yet." placeholder:"DURATION" default:"0s"`
	DryRun     bool          `help:"Change nothing; list what would be created or changed." env:"-"`
	JSON       bool          `help:"Print one JSON document: the streams, or with --dry-run the steps."`
	program.Retention
}

// Help implements kong.HelpProvider.
func (*Setup) Help() string {
	return `Create missing streams, buckets and durable consumers, and list the streams. In existing ones it changes only:

  - the limits of --…-age, --…-size and --…-values that a flag, a variable or the file of --config sets; a limit that none
    sets keeps its value. An age that is too short for what refers to the messages is raised; see --dry-run
  - the ack wait of the consumers (--ack-wait), and that streams no longer allow rollups

A shorter age deletes older messages at once. The log of the playbooks is kept for ever. A server without users needs no setup:
the programs create the streams with the defaults.

Examples:

  debrief setup --nats nats://nats:4222 --replicas 3
  debrief setup --executions-age 90d --dry-run
  debrief setup --wait-server 1m`
}

// Check returns an error for each invalid setting.
func (s *Setup) Check() error { return errors.Join(s.NoGateway.Check(), s.NATS.Check()) }

// Run implements the command.
func (s *Setup) Run(ctx context.Context, c *program.Common, from program.Effective) error {
	if s.WaitServer < 0 {
		return program.Exit(program.ExitUsage, fmt.Errorf("--wait-server: must be at least 0, got %s", s.WaitServer))
	}
	nc, conn, err := s.connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer nc.Close()
	if s.DryRun {
		return s.plan(ctx, conn, from)
	}
	if _, err := s.SetLimits(ctx, conn, s.Replicas, from); err != nil {
		return err
	}
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
	return term.PrintTable(term.Stdout, "stream\treplicas\tmessages\tconsumers\tage limit\tsize limit", all, func(w io.Writer, s bus.StreamState) {
		term.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", s.Name, s.Replicas, s.Messages, s.Consumers, formatAgeLimit(s), formatSizeLimit(s))
	})
}

// plan prints what Run would create and change.
func (s *Setup) plan(ctx context.Context, conn *bus.Conn, from program.Effective) error {
	steps, err := s.PlanLimits(ctx, conn, s.Replicas, from)
	if err != nil {
		return err
	}
	consumers, err := conn.Consumers.Plan(ctx)
	if err != nil {
		return err
	}
	steps = append(steps, consumers...)
	if s.JSON {
		return cli.WriteJSON(term.Stdout, steps)
	}
	if len(steps) == 0 {
		term.Println("nothing to create or change")
		return nil
	}
	w := term.NewTable(term.Stdout)
	for _, step := range steps {
		if step.Create {
			term.Fprintf(w, "create %s\n", step.Stream)
		} else {
			term.Fprintf(w, "change %s\n", step.Stream)
		}
		for _, c := range step.Changes {
			value := c.To
			if c.From != "" {
				value = c.From + " → " + c.To
			}
			term.Fprintf(w, "  %s\t%s\t%s\n", c.Setting, value, c.Why)
		}
	}
	return w.Flush()
}

// formatAgeLimit formats the age limit of a stream for a table, "-" for none.
func formatAgeLimit(s bus.StreamState) string {
	if s.MaxAge == 0 {
		return "-"
	}
	return streams.Age(s.MaxAge).String()
}

// formatSizeLimit formats the limit of the size of a stream for a table, "-" for none.
func formatSizeLimit(s bus.StreamState) string {
	switch {
	case s.MaxBytes > 0:
		return streams.Size(s.MaxBytes).String()
	case s.MaxMessages > 0:
		return fmt.Sprintf("%d values", s.MaxMessages)
	}
	return "-"
}

// connect connects to the server and opens its streams, which a dry run does not create. It waits up to --wait-server for the server.
func (s *Setup) connect(ctx context.Context, log zerolog.Logger) (nc *nats.Conn, conn *bus.Conn, err error) {
	defer term.Doing("waiting for the server")()
	err = program.RetryUnreachable(ctx, s.WaitServer, func() error {
		var err error
		nc, err = s.Dial("debrief", log)
		if err != nil {
			return err
		}
		if s.DryRun {
			conn, err = bus.Attach(nc, bus.Options{Log: log, Policy: bus.Policy{AckWait: s.AckWait}})
		} else {
			conn, err = s.Open(ctx, nc, "", log)
		}
		if err != nil {
			nc.Close()
		}
		return err
	})
	return nc, conn, err
}
