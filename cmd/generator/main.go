// Command generator runs generators against a NATS server: as many processes of it as the work asks for.
package main

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/generator"
)

type command struct {
	app.Worker
	app.Model
	app.Generator
}

// Run works until it is told to stop.
func (c *command) Run(ctx context.Context) error {
	model, err := c.Client(events.RoleGenerator)
	if err != nil {
		return err
	}
	return c.Work(ctx, events.RoleGenerator, generator.New(model, c.Generator.Config))
}

func main() {
	os.Exit(app.Main("generator", "Answers tasks from the stream TASKS with the playbook in the prompt.", new(command), kong.Vars{}, os.Args[1:]))
}
