// Command curator runs a curator against a NATS server. Start further processes to scale.
package main

import (
	"context"
	"errors"
	"os"

	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
)

type command struct {
	program.Worker
	program.Model
	program.Curator
}

func (*command) Help() string {
	return `Examples:

  curator --nats nats://localhost:4222
  curator --model gpt-4o-mini --gate strict
  curator --show-config`
}

func (c *command) Check() error {
	_, err := c.OptionalClient(events.RoleCurator)
	return errors.Join(c.Worker.Check(), err)
}

// Run runs the curator until the context ends.
func (c *command) Run(ctx context.Context) error {
	model, err := c.OptionalClient(events.RoleCurator)
	if err != nil {
		return err
	}
	m, err := c.Metrics(events.RoleCurator)
	if err != nil {
		return err
	}
	cfg := c.Curator.Settings()
	cfg.Meter = m.Curator()
	role, err := curator.New(m.Model(events.RoleCurator, model), cfg)
	if err != nil {
		return err
	}
	return c.Work(ctx, events.RoleCurator, m, c.Describe(events.RoleCurator), role)
}

func main() {
	os.Exit(program.Program{
		Name: "curator", CLI: new(command),
		Description: "Turns reflections from the stream REFLECTIONS into deltas of the playbooks, with or without a model.",
	}.Main(os.Args[1:]))
}
