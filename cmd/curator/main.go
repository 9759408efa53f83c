// Command curator runs curators against a NATS server: as many processes of it as the work asks for.
package main

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/events"
)

type command struct {
	app.Worker
	app.Model
	app.Curator
}

// Run works until it is told to stop.
func (c *command) Run(ctx context.Context) error {
	model, err := c.Optional(events.RoleCurator)
	if err != nil {
		return err
	}
	return c.Work(ctx, events.RoleCurator, c.Role(model))
}

func main() {
	os.Exit(app.Main("curator", "Turns reflections from the stream REFLECTIONS into deltas of the playbooks, with a model or without.", new(command), kong.Vars{}, os.Args[1:]))
}
