// Command generator runs a generator against a NATS server. Start further processes to scale.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/scoring"
)

type command struct {
	program.Worker
	program.Model
	program.Embedding
	program.Generator
	Evaluators program.Evaluators `embed:""`
	program.ServeFlags
	Rounds int `name:"rounds" help:"Rounds that the reflectors give a task, 1 to 3: its requester gets the last answer." default:"1" rare:""`
}

func (*command) Help() string {
	return `Examples:

  generator --model gpt-4o-mini --nats nats://localhost:4222
  generator --base-url http://localhost:8000/v1 --model my-model --generator-slots 32
  generator --serve-only --show-config`
}

func (c *command) Check() error {
	_, err := c.role(program.MetricsWithoutFigures(events.RoleGenerator))
	return errors.Join(c.Worker.Check(), err)
}

// role returns the generator that the flags describe, with its model and its metrics.
func (c *command) role(m *metrics.Metrics) (program.Role, error) {
	if c.Rounds < 1 || c.Rounds > events.MaxRounds {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--rounds: must be 1 to %d, got %d", events.MaxRounds, c.Rounds))
	}
	var model chat.Model // nil serves contexts only
	if !c.ServeOnly {
		client, err := c.Client(events.RoleGenerator)
		if err != nil {
			return nil, err
		}
		model = client
	}
	embedder, err := c.Embedder(c.Model)
	if err != nil {
		return nil, err
	}
	cfg, err := c.Generator.Settings()
	if err != nil {
		return nil, err
	}
	judge, err := c.Judge()
	if err != nil {
		return nil, err
	}
	if judge != nil { // the judge has its own model, so its calls do not count as those of the generator
		judge = m.Model(scoring.ByJudge, judge)
	}
	cfg.Scorer = scoring.NewScorer(c.Evaluators.Settings(), cfg.Slots).WithModel(judge)
	cfg.Rounds = c.Rounds
	cfg.Meter, cfg.ModelName = m.Generator(), c.NameOf(events.RoleGenerator)
	g, err := generator.New(m.Model(events.RoleGenerator, model), m.Embedder(embedder), cfg, program.NATSEndpoint(m))
	if err != nil {
		return nil, err
	}
	m.SetFollowerLag(g.VersionLag)
	return g, nil
}

// Run runs the generator until the context ends.
func (c *command) Run(ctx context.Context) error {
	m, err := c.Metrics(events.RoleGenerator)
	if err != nil {
		return err
	}
	role, err := c.role(m)
	if err != nil {
		return err
	}
	model := c.Describe(events.RoleGenerator)
	if c.ServeOnly {
		model = "no model: it serves contexts and answers no tasks"
	}
	return c.Work(ctx, events.RoleGenerator, m, model, role)
}

func main() {
	os.Exit(program.Program{
		Name: "generator", CLI: new(command),
		Description: "Answers tasks from the stream TASKS with the playbook in the prompt, and serves contexts to outside agents.",
	}.Main(os.Args[1:]))
}
