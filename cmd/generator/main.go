// Command generator runs generators against a NATS server: as many processes of it as the work asks for.
package main

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/app"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/scoring"
)

type command struct {
	app.Worker
	app.Model
	app.Embedding
	app.Generator
	Evaluators scoring.Config `embed:""`
	ServeOnly  bool           `help:"Answer no tasks: serve contexts to agents that call their own model."`
}

// Run works until it is told to stop.
func (c *command) Run(ctx context.Context) error {
	var model chat.Model
	if !c.ServeOnly {
		client, err := c.Client(events.RoleGenerator)
		if err != nil {
			return err
		}
		model = client
	}
	embedder, err := c.Embedder(c.Model)
	if err != nil {
		return err
	}
	cfg, err := c.Generator.Settings()
	if err != nil {
		return err
	}
	cfg.Judge = scoring.NewJudge(c.Evaluators, cfg.Slots)
	return c.Work(ctx, events.RoleGenerator, generator.New(model, embedder, cfg, app.Service))
}

func main() {
	os.Exit(app.Main("generator", "Answers tasks from the stream TASKS with the playbook in the prompt, and serves contexts to outside agents.", new(command), kong.Vars{}, os.Args[1:]))
}
