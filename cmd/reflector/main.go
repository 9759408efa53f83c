// Command reflector runs reflectors against a NATS server: as many processes of it as the work asks for.
package main

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/reflector"
)

type command struct {
	app.Worker
	app.Model
	app.Reflector
}

// Run works until it is told to stop.
func (c *command) Run(ctx context.Context) error {
	model, err := c.Optional(events.RoleReflector)
	if err != nil {
		return err
	}
	cfg, err := c.Reflector.Settings()
	if err != nil {
		return err
	}
	return c.Work(ctx, events.RoleReflector, reflector.New(model, cfg))
}

func main() {
	os.Exit(app.Main("reflector", "Reflects on executions from the stream EXECUTIONS: with a model and by rules, or by rules alone without one.", new(command), kong.Vars{}, os.Args[1:]))
}
