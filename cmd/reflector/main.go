// Command reflector runs a reflector against a NATS server. Start further processes to scale.
package main

import (
	"context"
	"errors"
	"os"

	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/reflector"
)

type command struct {
	program.Worker
	program.Model
	program.Reflector
}

func (*command) Help() string {
	return `Examples:

  reflector --nats nats://localhost:4222
  reflector --model gpt-4o-mini --reflector-slots 32
  reflector --model gpt-4o-mini --show-config`
}

func (c *command) Check() error {
	_, err := c.role(program.MetricsWithoutFigures(events.RoleReflector))
	return errors.Join(c.Worker.Check(), err)
}

// role returns the reflector that the flags describe, with its model and its metrics.
func (c *command) role(m *metrics.Metrics) (program.Role, error) {
	model, err := c.OptionalClient(events.RoleReflector)
	if err != nil {
		return nil, err
	}
	cfg, err := c.Reflector.Settings()
	if err != nil {
		return nil, err
	}
	return reflector.New(m.Model(events.RoleReflector, model), cfg)
}

// Run runs the reflector until the context ends.
func (c *command) Run(ctx context.Context) error {
	m, err := c.Metrics(events.RoleReflector)
	if err != nil {
		return err
	}
	role, err := c.role(m)
	if err != nil {
		return err
	}
	return c.Work(ctx, events.RoleReflector, m, c.Describe(events.RoleReflector), role)
}

func main() {
	os.Exit(program.Program{
		Name: "reflector", CLI: new(command),
		Description: "Reflects on executions from the stream EXECUTIONS with a model. Without a model it passes on their outcomes only.",
	}.Main(os.Args[1:]))
}
